import { describe, expect, it } from 'vitest';
import { ledgerAfter, unitRight, wantedRuns } from '../../../../../src/domain/release/hooks.ts';
import type { HookLedger } from '../../../../../src/domain/state/hook.ts';
import { keyIdOf, POLICY, stored, verified } from '../../../../support/daemon/scenario.ts';

const policy = { hooks: { ...POLICY.hooks, activated: 'unit.service' } };
const bundle = stored(verified(), { readyAt: 1, activatedAt: 2 });
const none = new Map();
const NONE = { keyIds: [], revocationsUnreadable: false };
const done: HookLedger = new Map([['activated', { unit: 'unit.service', done: new Map([[bundle.bundleId, 2]]) }]]);

describe('the record of hooks', () => {
  it('forgets a release that is gone', () => {
    expect(ledgerAfter(done, [], none, policy).get('activated')?.done).toEqual(new Map());
  });

  it('forgets none while the state is lost: one that is known again has had its hooks', () => {
    const kept = ledgerAfter(done, [], none, policy, true);
    expect(kept).toBe(done);
    expect(wantedRuns([bundle], { ledger: kept, degraded: none }, policy)).toEqual([]);
  });
});

describe('a unit of a hook', () => {
  const SHIPPED = 'stickpin-host-switch.service';
  const [factory, other] = [keyIdOf('factory-2026'), keyIdOf('other')];
  const ocp = (units: readonly string[], unit_keys: readonly string[]) => ({ ocp: { units, unit_keys } });

  it.each([
    ['is free without a stream that names it', 'mine.service', {}, 'yes'],
    ['is for the stream that names it', 'mine.service', ocp(['mine.service'], [other, factory]), 'yes'],
    [
      'is for no other stream',
      'mine.service',
      { edge: { units: ['mine.service'], unit_keys: [factory] } },
      'other-stream',
    ],
    ['is not for a release that another key signed', 'mine.service', ocp(['mine.service'], [other]), 'not-signed'],
    ['is for no release without a key', 'mine.service', { ocp: { units: ['mine.service'] } }, 'not-signed'],
    ['that comes with stickpin is for no stream unless one names it', SHIPPED, {}, 'other-stream'],
    ['that comes with stickpin is for the stream and key that are named', SHIPPED, ocp([SHIPPED], [factory]), 'yes'],
    ['that comes with stickpin is not for another key', SHIPPED, ocp([SHIPPED], [other]), 'not-signed'],
  ])('%s', (_name, unit, streams, expected) => {
    expect(unitRight(unit, bundle, { streams }, NONE)).toBe(expected);
  });

  it('is not for a release that nobody signed, nor for none', () => {
    const unsigned = { ...bundle, signerKeyIds: [] };
    expect(unitRight('mine.service', unsigned, { streams: ocp(['mine.service'], [factory]) }, NONE)).toBe('not-signed');
    expect(unitRight(SHIPPED, undefined, { streams: ocp([SHIPPED], [factory]) }, NONE)).toBe('other-stream');
  });

  it.each([
    ['revoked', { ...NONE, keyIds: [factory] }],
    ['revoked in a role', { ...NONE, inRoles: new Map([['site', [factory]]]) }],
    ['perhaps revoked', { ...NONE, revocationsUnreadable: true }],
  ])('is not for a release whose only key is %s', (_what, revocations) => {
    expect(unitRight(SHIPPED, bundle, { streams: ocp([SHIPPED], [factory]) }, revocations)).toBe('not-signed');
  });
});
