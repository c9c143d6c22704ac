import { describe, expect, it } from 'vitest';
import { lifecycleEffect } from '../../../../src/domain/decide/release-effects.ts';
import { verified } from '../../../support/daemon/scenario.ts';

const { bundleId } = verified();
const { bundleId: other } = verified({ version: '4.13.8', sequence: 8 });

describe('what follows from a finding about a release', () => {
  it('retires a spare release, and removes its images where the settings say so', () => {
    const spare = { kind: 'spare', bundleId } as const;
    expect(lifecycleEffect(spare, { remove_images: false })).toEqual({ kind: 'retire', bundleId, removeImages: false });
    expect(lifecycleEffect({ ...spare, roomFor: other }, { remove_images: true })).toEqual({
      kind: 'retire',
      bundleId,
      removeImages: true,
      roomFor: other,
    });
  });

  it.each([true, false])(
    'retires the replaced bundle with the same images, unless it is protected: %s',
    (isTwinKept) => {
      const finding = { kind: 'same-images', bundleId, twin: other, isTwinKept } as const;
      const effect = { kind: 'take-over', bundleId, from: other, retireFrom: !isTwinKept };
      expect(lifecycleEffect(finding, { remove_images: true })).toEqual(effect);
    },
  );
});
