import { describe, expect, it } from 'vitest';
import { floor } from '../../../../src/domain/activation/release-gates.ts';
import { isClaim, refuseAdoption } from '../../../../src/domain/adoption/adoption.ts';
import {
  areSameFloors,
  floorsFrom,
  floorsNow,
  higherFloors,
  isAboveFloor,
  KnownBundles,
  NO_FLOORS,
  withoutDoubt,
  withoutStream,
} from '../../../../src/domain/adoption/floors.ts';
import { surplusBundles } from '../../../../src/domain/release/retention.ts';
import { heldReason } from '../../../../src/domain/report/hold-text.ts';
import type { Floors } from '../../../../src/domain/state/release-record.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  found,
  judge,
  medium,
  NOON,
  observation,
  POLICY,
  pathWith,
  pinsOf,
  reachable,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const floors = (sequence: number, over: Partial<Floors> = {}): Floors => ({
  ...NO_FLOORS,
  sequences: new Map([['ocp', sequence]]),
  ...over,
});

describe('a ready release whose automatic activation a floor holds', () => {
  const release = verified({ sequence: 7 });
  const ready = stored(release, { readyAt: NOON });
  const look = (over: Partial<Floors>) => {
    const { first } = judge(
      observation({ floors: floors(9, over), runtime: reachable({ images: allListed(release) }) }),
      [ready],
    );
    return first && heldReason(first);
  };

  it('shows the reason and what to do', () => {
    expect(look({})?.message).toBe(
      "It is not activated automatically: its sequence 7 is below 9, which was activated before. Sequences of stream ocp only grow. Run 'stickpin activate ocp@4.13.7' if it is the release that you want",
    );
    const lost = { areLost: true, sequences: new Map() };
    expect(look(lost)?.code).toBe('engine/floor-unknown');
    expect(look(lost)?.message).toContain('It is not known which release of ocp was activated on this node before');
    expect(look({ sequences: new Map([['ocp', 7]]) })).toBeUndefined();
  });

  it('shows no reason of the floor when a person activates it, or when it waits for a person anyway', () => {
    const passes = (bundle: StoredBundle) =>
      floor({ bundle, policy: POLICY, floors: floors(9), path: pathWith() }).kind === 'pass';
    expect(passes(stored(release))).toBe(false);
    expect(passes(stored(release, { activationRequestedAt: NOON }))).toBe(true);
    expect(passes(stored(verified({ sequence: 7, schedule: 'manual' })))).toBe(true);
    expect(passes(stored(release, { activatedAt: NOON }))).toBe(true);
  });
});

describe('floors', () => {
  it('are the higher of the stored value and the value from the bundles', () => {
    const bundles = [stored(verified({ sequence: 8 }), { activatedAt: NOON }), stored(verified({ sequence: 9 }))];
    expect(floorsFrom(bundles).sequences.get('ocp')).toBe(8);
    expect(higherFloors(floors(9), floorsFrom(bundles)).sequences.get('ocp')).toBe(9);
    expect(higherFloors(floors(2), floorsFrom(bundles)).sequences.get('ocp')).toBe(8);
    expect(higherFloors(floors(2, { areLost: true }), NO_FLOORS).areLost).toBe(true);
  });

  it('hold the automatic activation of a release below its floor, or whose floor is lost', () => {
    const release = { payload: verified({ sequence: 7 }).payload };
    expect(isAboveFloor(release, floors(7))).toBe(true);
    expect(isAboveFloor(release, floors(8))).toBe(false);
    expect(isAboveFloor(release, NO_FLOORS)).toBe(true);
    expect(isAboveFloor(release, { ...NO_FLOORS, areLost: true })).toBe(false);
    expect(isAboveFloor(release, floors(7, { areLost: true }))).toBe(true);
  });

  it('outlive the bundles: an older bundle is refused, and one that expired before the newest one was created', () => {
    const context = { arch: 'amd64', now: NOON, clockSynchronised: false };
    const code = (over: object, remembered: Floors) =>
      refuseAdoption(verified(over), { ...context, known: new KnownBundles([], remembered) })?.code;
    expect(code({ sequence: 2 }, floors(9))).toBe('bundle/sequence');
    expect(code({ sequence: 9 }, floors(9))).toBeUndefined();
    const late = floors(0, { newestCreated: new Map([['ocp', NOON + 10]]) });
    expect(code({ expires: new Date(NOON + 5).toISOString() }, late)).toBe('bundle/expired');
    expect(code({ expires: new Date(NOON + 5).toISOString() }, NO_FLOORS)).toBeUndefined();
  });

  it('are of one stream each: neither sequence nor time of another counts', () => {
    const far = stored(verified({ name: 'tools', sequence: 99, created: '2098-01-01T00:00:00Z' }), {
      activatedAt: NOON,
    });
    const context = { known: new KnownBundles([far]), arch: 'amd64', now: NOON, clockSynchronised: false };
    const expires = new Date(NOON + 5).toISOString();
    expect(refuseAdoption(verified({ expires }), context)).toBeUndefined();
    expect(refuseAdoption(verified({ name: 'tools', sequence: 100, expires }), context)?.code).toBe('bundle/expired');
  });

  it('of a stream that was reset count no more, whichever copy still has them', () => {
    const old = floors(9, { newestCreated: new Map([['ocp', NOON]]) });
    const reset = withoutStream(old, 'ocp');
    for (const both of [higherFloors(reset, old), higherFloors(old, reset)]) {
      expect(areSameFloors(both, reset)).toBe(true);
      expect(both.sequences.get('ocp')).toBe(0);
      expect(both.newestCreated.has('ocp')).toBe(false);
    }
    const known = stored(verified({ sequence: 8 }), { activatedAt: NOON });
    expect(floorsNow(reset, [known]).sequences.get('ocp')).toBe(8);
    expect(floorsNow(reset, [{ ...known, resetAt: NOON + 1 }]).sequences.get('ocp')).toBe(0);
    expect(isAboveFloor(known, withoutStream({ ...NO_FLOORS, areLost: true }, 'ocp'))).toBe(true);
  });

  it('let a bundle that claims its own pins be adopted, without activating it', () => {
    const old = verified({ sequence: 2 });
    expect(isClaim(old, new Set(pinsOf(old)))).toBe(true);
    expect(isClaim(old, new Set(pinsOf(old).slice(1)))).toBe(false);
    const ledger = {
      releases: [],
      unclaimed: pinsOf(old),
      givenUp: [],
      state: { origin: 'db-1', revision: 0 },
      stamp: 0,
    };
    const observed = observation({ media: [medium('sdb1', [found(old)])], pinLedger: ledger, floors: floors(9) });
    const { assessment } = judge(observed);
    expect(assessment.rejections).toEqual([]);
    expect(assessment.adoptions.map((adoption) => adoption.isClaim)).toEqual([true]);
    const adopted = judge(observed, [stored(old, { claimedAt: NOON, readyAt: NOON })]);
    expect(adopted.first?.activationDue).toBe(false);
    expect(judge({ ...observed, floors: floors(2) }, [stored(old, { readyAt: NOON })]).first?.activationDue).toBe(true);
  });

  it('keep a release that claimed its pins again as a fallback, but not one that was skipped', () => {
    const done = { readyAt: NOON, activatedAt: NOON, activeAt: NOON, provenAt: NOON };
    const good = stored(verified({ sequence: 9, images: { nine: ['nine'] } }), done);
    const old = stored(verified({ sequence: 8 }), { readyAt: NOON });
    expect(surplusBundles([old, good], POLICY.lifecycle)).toEqual([old]);
    expect(surplusBundles([{ ...old, claimedAt: NOON }, good], POLICY.lifecycle)).toEqual([]);
  });
});

describe('floors that were lost, of a stream whose release was rebuilt', () => {
  const rebuilt = stored(verified({ sequence: 9 }), { activatedAt: NOON });
  const lost = { ...NO_FLOORS, areLost: true };

  it('are a lower bound: nothing below is adopted, and nothing above is activated automatically', () => {
    const floors = floorsNow(lost, [rebuilt]);
    expect(floors.sequences.get('ocp')).toBe(9);
    expect(isAboveFloor(verified({ sequence: 10 }), floors)).toBe(false);
  });

  it('stay uncertain when they are written and read again', () => {
    const floors = floorsNow(floorsNow(lost, [rebuilt]), [rebuilt]);
    expect([...(floors.doubted ?? [])]).toEqual(['ocp']);
  });

  it('are known once a person had a release activated, or reset the stream', () => {
    const floors = floorsNow(lost, [rebuilt]);
    expect(isAboveFloor(verified({ sequence: 10 }), { ...floors, ...withoutDoubt(floors, 'ocp') })).toBe(true);
    expect(isAboveFloor(verified({ sequence: 10 }), withoutStream(floors, 'ocp'))).toBe(true);
  });

  it('are certain where nothing was lost', () => {
    expect(isAboveFloor(verified({ sequence: 10 }), floorsNow(NO_FLOORS, [rebuilt]))).toBe(true);
  });
});
