import { describe, expect, it } from 'vitest';
import { pullsElsewhere } from '../../../../../src/domain/activation/release-gates.ts';
import type { ImageUses } from '../../../../../src/domain/model/image.ts';
import { holdMessage } from '../../../../../src/domain/report/hold-text.ts';
import { NOON, POLICY, stored, verified } from '../../../../support/daemon/scenario.ts';

const older = stored(verified({ version: '4.13.6', sequence: 6, images: { etcd: ['base'] } }), { activatedAt: 1 });
const bundle = stored(verified({ images: { etcd: ['base'], api: ['api'] } }), { readyAt: NOON });
const policy = { ...POLICY, update: { ...POLICY.update, pulls_from_elsewhere: 'hold' as const } };
const uses = (...images: readonly string[]): ImageUses => ({
  uses: images.map((image) => ({ usedBy: 'Pod a, container c', image })),
  faults: [],
  isComplete: true,
});
const gate = (imageUses: ImageUses | undefined, over = {}) =>
  pullsElsewhere({ bundle, bundles: [older, bundle], policy, imageUses, ...over });

describe('the gate for pulls from elsewhere', () => {
  it('lets a release pass that provides all images once it is activated', () => {
    expect(gate(uses('quay.example.com/ocp/api:4.13.7', 'quay.example.com/ocp/etcd:4.13.7'))).toEqual({ kind: 'pass' });
    expect(gate(uses())).toEqual({ kind: 'pass' });
  });

  it('holds while nothing provides the name of an image', () => {
    expect(gate(uses('quay.example.com/ocp/etcd:4.13.6'))).toEqual({ kind: 'pass' });
    const verdict = gate(uses('quay.io/x/w:1', 'quay.io/x/y:1', 'quay.io/x/z:1'));
    expect(verdict).toEqual({
      kind: 'hold',
      hold: {
        code: 'engine/pulls-from-elsewhere',
        data: { kind: 'found', image: 'quay.io/x/w:1', usedBy: 'Pod a, container c', more: 2 },
        releasedBy: 'event',
      },
    });
    if (verdict.kind === 'hold') {
      expect(holdMessage(verdict.hold)).toBe(
        'quay.io/x/w:1 and 2 other images would still come from elsewhere. It is used by Pod a, container c. The setting update.pulls_from_elsewhere is "hold". Add it to a bundle under this name, or let the pod use another image',
      );
    }
  });

  it('holds while it is unknown which images are used', () => {
    const unknown = { kind: 'hold', hold: { data: { kind: 'unknown' } } };
    expect(gate(undefined)).toMatchObject(unknown);
    expect(gate({ ...uses(), isComplete: false })).toMatchObject(unknown);
  });

  it('holds nothing with the default setting', () => {
    expect(gate(uses('quay.io/x/y:1'), { policy: POLICY })).toEqual({ kind: 'pass' });
    expect(gate(undefined, { policy: POLICY })).toEqual({ kind: 'pass' });
  });
});
