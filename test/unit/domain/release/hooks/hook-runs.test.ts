import { describe, expect, it } from 'vitest';
import { ledgerAfter, wantedRuns } from '../../../../../src/domain/release/hooks.ts';
import type { HookLedger } from '../../../../../src/domain/state/hook.ts';
import { POLICY, stored, verified } from '../../../../support/daemon/scenario.ts';

const policy = { hooks: { ...POLICY.hooks, activated: 'unit.service' } };
const bundle = stored(verified(), { readyAt: 1, activatedAt: 2 });
const none = new Map();
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
