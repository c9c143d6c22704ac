import { describe, expect, it } from 'vitest';
import { effectiveAdvisories } from '../../../../src/domain/activation/read-paths.ts';
import { reportOf } from '../../../../src/domain/report/report.ts';
import { judge, keyIdOf, observation, stored, verified } from '../../../support/daemon/scenario.ts';

const still = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
const release = stored(verified());
const warning = (sequence: number, reason: string, over = {}) =>
  stored(
    verified({
      version: `2026.1.${sequence}`,
      sequence,
      images: {},
      signedBy: ['advisor'],
      advisories: [{ version: '4.13.7', deadend: true, reason }],
      ...over,
    }),
  );

describe('advisories (bundle format: "the newest sequence wins")', () => {
  it('are from the bundle with the highest sequence that names the version, in any order of adoption', () => {
    const [newer, older] = [warning(9, 'loses data'), warning(8, 'is slow')];
    const other = warning(10, 'x', { advisories: [{ version: '4.13.6', barrier: true, reason: 'etcd' }] });
    const known = effectiveAdvisories([newer, older, other], 'ocp');
    expect(known.get('4.13.7')).toEqual({
      version: '4.13.7',
      deadend: true,
      reason: 'loses data',
      from: 'ocp@2026.1.9',
    });
    expect(known.get('4.13.6')).toMatchObject({ barrier: true });
  });

  it('are of the own stream only', () => {
    expect(effectiveAdvisories([warning(9, 'x')], 'tools').size).toBe(0);
  });

  it('are shown with the release, and the notice is not a release to activate', () => {
    const { assessment, decision } = judge(observation(), [release, warning(9, 'loses data')]);
    const report = reportOf({ observed: observation(), memory: observation(), assessment }, still);
    expect(report.bundles).toMatchObject([{ version: '4.13.7', advisory: { deadend: true, from: 'ocp@2026.1.9' } }]);
    expect(report.notices).toMatchObject([{ version: '2026.1.9', sequence: 9 }]);
    expect(decision.effects.filter(({ kind }) => kind === 'start' || kind === 'record-ready')).toEqual([]);
  });

  it('do not count when the key of the notice was revoked', () => {
    const observed = observation({ revocations: { keyIds: [keyIdOf('advisor')], revocationsUnreadable: false } });
    const report = reportOf(
      { observed, memory: observed, assessment: judge(observed, [release, warning(9, 'loses data')]).assessment },
      still,
    );
    expect(report.bundles[0]?.advisory).toBeUndefined();
    expect(report.notices).toMatchObject([{ reason: { code: 'trust/key-revoked' } }]);
  });
});
