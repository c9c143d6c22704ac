import { describe, expect, it } from 'vitest';
import { renderShow } from '../../../../src/cli/output/render/render-show.ts';
import { renderList } from '../../../../src/cli/output/render/render-status.ts';
import { reportOf } from '../../../../src/domain/report/report.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  POLICY,
  reachable,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const update = {
  from: '1.x',
  endOfLife: new Date(NOON - 1).toISOString(),
  rollout: { start: '2027-01-01T00:00:00Z', startPercentage: 1 },
};
const release = stored(verified({ schedule: 'manual', update }), { readyAt: NOON });
const AT_6 = { ...POLICY, streams: { ocp: { current: '4.13.6' } } };
const report = (bundle = release) => {
  const observed = observation({ runtime: reachable({ images: allListed(bundle) }) });
  const progress = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
  const { assessment } = judge(observed, [bundle], AT_6);
  return reportOf({ observed, memory: observed, assessment }, progress);
};

describe('what holds an activation', () => {
  it('says that a range of a stored release is too long to be read, in few words', () => {
    const from = `${'4.13.6 || '.repeat(103)}4.13.6`;
    const { bundles, status } = report(stored(verified({ update: { from } }), { readyAt: NOON }));
    expect(bundles[0]?.activationHolds?.[0]?.message).toMatch(/^its rule "from" has more than 1024 characters/);
    expect(`${status}${bundles[0]?.activationHolds?.[0]?.message}`.length).toBeLessThan(600);
  });

  it('is in the report with all holds and what ends each', () => {
    expect(report().bundles[0]?.activationHolds).toMatchObject([
      { gate: 'from', code: 'rule/from', releasedBy: 'person' },
      { gate: 'rollout', code: 'rule/rollout', releasedBy: 'time', until: '2027-01-01T00:00:00.000Z' },
      { gate: 'endOfLife', code: 'rule/end-of-life', releasedBy: 'person' },
      { gate: 'schedule', code: 'engine/manual', releasedBy: 'person' },
    ]);
  });

  it('is printed by show, one line for each hold', () => {
    const { bundles, trust } = report();
    const [first] = bundles;
    const lines = first === undefined ? [] : renderShow(first, trust).split('\n');
    expect(lines.filter((line) => line.startsWith('held:')).map((line) => line.slice(14))).toEqual([
      `its rule "from" needs 1.x, and the current release is 4.13.6. To activate it now, run 'stickpin activate ocp@4.13.7'`,
      `its rule "rollout" allows it on this node from 2027-01-01T00:00:00Z. The wariness of this node is 0.897. It ends automatically on 2027-01-01T00:00:00.000Z`,
      `its end of life was on ${update.endOfLife}. Its rule "endOfLife" says so. To activate it now, run 'stickpin activate ocp@4.13.7'`,
      `its schedule is "manual". An administrator activates it. To activate it now, run 'stickpin activate ocp@4.13.7'`,
    ]);
  });

  it('is in the list, with the first hold of a ready release', () => {
    const plain = stored(verified({ schedule: 'manual' }), { readyAt: NOON });
    expect(report(plain).bundles[0]?.reason).toBeUndefined();
    const list = renderList(report(plain));
    expect(list).toMatch(/ocp@4\.13\.7 +ready \(activation held\)/);
    expect(list).toContain(
      `ocp@4.13.7: its activation is held: its schedule is "manual". An administrator activates it. To activate it now, run 'stickpin activate ocp@4.13.7'\n`,
    );
  });
});
