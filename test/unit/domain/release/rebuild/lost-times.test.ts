import { describe, expect, it } from 'vitest';
import type { MediumId } from '../../../../../src/domain/model/medium.ts';
import { withLostTimes } from '../../../../../src/domain/release/rebuild.ts';
import type { KnownRelease } from '../../../../../src/domain/state/release-record.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import { stored, verified } from '../../../../support/daemon/scenario.ts';

const { bundleId } = verified();
const bundle = (over: Partial<StoredBundle>) => stored(verified(), over);
const told = (over: Partial<KnownRelease>) => ({ known: [{ bundleId, adoptedAt: 1, ...over }] });

describe('withLostTimes', () => {
  it('adds what an earlier copy does not have', () => {
    const one = bundle({ readyAt: 2, activatedAt: 3 });
    const later = {
      resetAt: 9,
      activatedAt: 5,
      activeAt: 6,
      provenAt: 7,
      rolledBackAt: 8,
      rolledBackReason: 'by hand',
      activationRequestedAt: 4,
      activationOverrides: ['rule/from'],
      cancelled: { at: 9, media: ['sdb1' as MediumId] },
    } as const;
    expect(withLostTimes([one], told(later))).toEqual([{ ...one, ...later }]);
  });

  it('keeps the later time of the database, and when the release was ready first', () => {
    const one = bundle({ readyAt: 2, activatedAt: 9, rolledBackAt: 8, rolledBackReason: 'now' });
    expect(
      withLostTimes([one], told({ readyAt: 4, activatedAt: 3, rolledBackAt: 4, rolledBackReason: 'then' })),
    ).toEqual([]);
  });

  it('takes the confirmed rules with the request to which they belong', () => {
    const one = bundle({ activationRequestedAt: 2, activationOverrides: ['rule/from'] });
    expect(withLostTimes([one], told({ activationRequestedAt: 3 }))).toEqual([
      { ...one, activationRequestedAt: 3, activationOverrides: [] },
    ]);
  });

  it('leaves out what the database does not know, and all without a ledger', () => {
    expect(withLostTimes([], told({ activatedAt: 3 }))).toEqual([]);
    expect(withLostTimes([bundle({})], undefined)).toEqual([]);
  });
});
