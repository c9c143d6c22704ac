import { describe, expect, it } from 'vitest';
import { recordedReport } from '../../../../../src/domain/report/parts/recorded-report.ts';
import { reportOf } from '../../../../../src/domain/report/report.ts';
import type { StatusReport } from '../../../../../src/domain/report/status-schema.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import {
  allListed,
  judge,
  NOON,
  observation,
  POLICY,
  reachable,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';

const PROGRESS = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
/**
 * What the daemon writes into status.json for these bundles, of which the runtime has all images or
 * none.
 */
function written(
  bundles: readonly StoredBundle[],
  images = bundles.flatMap((bundle) => allListed(bundle)),
): StatusReport {
  const observed = observation({ runtime: reachable({ images }) });
  return reportOf({ observed, memory: observed, assessment: judge(observed, bundles, POLICY).assessment }, PROGRESS);
}
const shown = (bundles: readonly StoredBundle[], wrote?: StatusReport) =>
  recordedReport({ bundles, rejectedNames: [] }, wrote).bundles;

const ready = stored(verified(), { readyAt: NOON });
const activated = stored(verified(), { readyAt: NOON, activatedAt: NOON + 1 });

describe('the report of a node whose daemon does not run', () => {
  it('has all that the daemon wrote of a release, when the records agree', () => {
    const wrote = written([activated]);
    expect(shown([activated], wrote)).toEqual(wrote.bundles);
  });

  it('takes the phase from the records when the daemon ended before it wrote', () => {
    const [bundle] = shown([activated], written([ready]));
    expect(bundle).toMatchObject({ phase: 'activated', activatedAt: new Date(NOON + 1).toISOString() });
    expect(bundle?.images).toEqual({ total: 2 });
    expect(bundle).not.toHaveProperty('media');
  });

  it('keeps what the daemon saw of a ready release whose images are gone', () => {
    const wrote = written([ready], []);
    expect(wrote.bundles[0]?.phase).toBe('held');
    expect(shown([ready], wrote)).toEqual(wrote.bundles);
  });

  it('has what is recorded without status.json, and nothing that only the daemon sees', () => {
    const [bundle] = shown([activated]);
    expect(bundle).toMatchObject({ name: 'ocp', version: '4.13.7', phase: 'activated', images: { total: 2 } });
    expect(shown([stored()])[0]).toMatchObject({ phase: 'held', adoptedAt: new Date(NOON).toISOString() });
    expect(recordedReport({ bundles: [activated], rejectedNames: [] })).not.toHaveProperty('trust');
  });

  it('says why a release went back', () => {
    const back = { ...activated, rolledBackAt: NOON + 2, rolledBackReason: 'root asked for it' };
    expect(shown([back])[0]?.reason).toMatchObject({
      code: 'engine/rolled-back',
      message: expect.stringContaining('root asked for it'),
    });
  });

  it('has names that were rejected since, and notices apart from releases', () => {
    const notice = stored(verified({ version: '4.13.8', images: {}, advisories: [] }));
    const { bundles, notices, rejectedNames } = recordedReport(
      { bundles: [notice], rejectedNames: [{ name: 'ocp', version: '4.13.9', at: NOON, reason: 'too big' }] },
      written([]),
    );
    expect(bundles).toEqual([]);
    expect(notices).toMatchObject([{ version: '4.13.8', advisories: [] }]);
    expect(rejectedNames).toMatchObject([
      { version: '4.13.9', reason: { code: 'trust/rejected', message: expect.stringContaining('too big') } },
    ]);
  });
});
