import { expect, it } from 'vitest';
import { keepPlan } from '../../../../src/domain/decide/pull-plan.ts';
import { digestOf, judge, LEDGER, observation, POLICY } from '../../../support/daemon/scenario.ts';

it('keeps every layer that lies on the disk while there are unclaimed pins', () => {
  const localBlobs = new Set([digestOf('layer')]);
  const wantedWith = (unclaimed: readonly string[]) => {
    const pinLedger = { ...LEDGER, unclaimed };
    const observed = observation({ localBlobs, pinLedger });
    return [...(keepPlan(observed, judge(observed, []).assessment, POLICY)?.wanted ?? [])];
  };
  expect(wantedWith([])).toEqual([]);
  expect(wantedWith(['quay.example.com/lost@sha256:0'])).toEqual([...localBlobs]);
});
