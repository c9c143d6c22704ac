import { describe, expect, it } from 'vitest';
import { reportOf } from '../../../../src/domain/report/report.ts';
import { statusLine } from '../../../../src/domain/report/status/status-line.ts';
import type { Policy } from '../../../../src/domain/settings/settings.ts';
import type { Stored, StoredBundle } from '../../../../src/domain/state/state.ts';
import type { TrustRequirement, Verdict } from '../../../../src/domain/trust/approval.ts';
import {
  allListed,
  found,
  type Judged,
  judge,
  medium,
  NOON,
  observation,
  POLICY,
  reachable,
  spoken,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified();
const still = { doneBytes: 0, totalBytes: 0, bytesPerSecond: undefined, waitingTransfers: 0 };
const saying = (verdict: Verdict['verdict']): Partial<Stored> => ({
  verdicts: [{ bundleId: bundle.bundleId, verdict, at: NOON }],
});
const policy = (require: TrustRequirement, approved: Policy['trust']['approved'] = []): Policy => ({
  ...POLICY,
  trust: { ...POLICY.trust, require, threshold: 1, approved },
});
const plugged = observation({ media: [medium('sdb1', [found(bundle)])] });
const outcome = ({ assessment }: Judged) =>
  assessment.adoptions.length > 0 ? 'adopted' : assessment.awaiting.length > 0 ? 'held' : 'rejected';

describe('trust.require', () => {
  it.each<{ require: TrustRequirement; approved: boolean; is: string }>([
    { require: 'signature', approved: false, is: 'adopted' },
    { require: 'approval', approved: false, is: 'held' },
    { require: 'approval', approved: true, is: 'adopted' },
    { require: 'both', approved: false, is: 'held' },
    { require: 'both', approved: true, is: 'adopted' },
  ])('"$require": a signed bundle that is approved ($approved) is $is', ({ require, approved, is }) => {
    expect(outcome(judge(plugged, [], policy(require), approved ? saying('approved') : {}))).toBe(is);
    expect(outcome(judge(plugged, [], policy(require, approved ? [bundle.bundleId] : [])))).toBe(is);
  });

  it('shows a waiting bundle as held (approval) with its digest, and does nothing with it', () => {
    const { assessment, decision } = judge(plugged, [], policy('both'));
    const report = reportOf({ observed: plugged, memory: plugged, assessment }, still);
    expect(report.bundles).toMatchObject([
      { name: 'ocp', version: '4.13.7', phase: 'held', hold: 'approval', media: ['sdb1'], images: { present: 0 } },
    ]);
    expect(report.bundles[0]?.adoptedAt).toBeUndefined();
    expect(statusLine({ observed: plugged, memory: plugged, assessment }, still)).toContain(
      `Compare its digest ${bundle.bundleId.slice(0, 19)}…, then 'stickpin approve ocp@4.13.7'`,
    );
    expect(spoken(decision.effects)).toEqual(['apply-pins 0']);
  });

  it('shows a bundle without a trusted signature only by its digest, and once for two media', () => {
    const unapproved = { kind: 'unapproved', path: 'stickpin/x', bundleId: bundle.bundleId } as const;
    const observed = observation({ media: [medium('sdb1', [unapproved]), medium('sdc1', [unapproved])] });
    const { assessment } = judge(observed, [], policy('approval'));
    expect(reportOf({ observed, memory: observed, assessment }, still).bundles).toMatchObject([
      { bundleId: bundle.bundleId, name: '', phase: 'held', hold: 'approval', media: ['sdb1', 'sdc1'] },
    ]);
    const refused = judge(observed, [], policy('approval'), saying('rejected')).assessment;
    expect(refused).toMatchObject({ awaiting: [], rejections: [{ reason: { code: 'trust/rejected' } }, {}] });
  });

  it('does not ask to approve what would be refused anyway', () => {
    const foreign = observation({ media: [medium('sdb1', [found(verified({ arch: 'arm64' }))])] });
    const { assessment } = judge(foreign, [], policy('both'));
    expect(assessment).toMatchObject({ awaiting: [], rejections: [{ reason: { code: 'bundle/arch' } }] });
  });

  it('does not let a waiting bundle reserve its sequence', () => {
    const twin = verified({ version: '4.13.8' });
    const both = observation({ media: [medium('sdb1', [found(bundle), found(twin)])] });
    const { assessment } = judge(both, [], policy('both', [twin.bundleId]));
    expect(assessment.adoptions.map(({ found: { bundle: one } }) => one.bundleId)).toEqual([twin.bundleId]);
    expect(assessment.awaiting.map(({ bundleId }) => bundleId)).toEqual([bundle.bundleId]);
  });
});

describe('stickpin reject', () => {
  it('keeps a signed bundle out, even if the settings approve it', () => {
    for (const require of ['signature', 'approval', 'both'] as const) {
      const { assessment } = judge(plugged, [], policy(require, [bundle.bundleId]), saying('rejected'));
      expect(assessment).toMatchObject({ adoptions: [], rejections: [{ reason: { code: 'trust/rejected' } }] });
    }
  });

  it('stops a preload: nothing is pulled, served or activated, and the pins stay', () => {
    const { first, decision } = judge(plugged, [stored(bundle)], policy('signature'), saying('rejected'));
    expect(first).toMatchObject({ phase: 'held', hold: 'approval', reason: { code: 'trust/rejected' } });
    expect(spoken(decision.effects)).toEqual(['apply-pins 2']);
  });

  it('leaves an activated release as it is, and does not repair it', () => {
    const running = stored(bundle, { readyAt: NOON, activatedAt: NOON });
    const { first, decision } = judge(plugged, [running], policy('signature'), saying('rejected'));
    expect(first).toMatchObject({ phase: 'activated', reason: { code: 'trust/rejected' } });
    expect(spoken(decision.effects)).toEqual(['apply-pins 2']);
  });
});

describe('approval of an adopted bundle', () => {
  const phase = (bundles: readonly StoredBundle[], images = reachable()) =>
    judge({ ...plugged, runtime: images }, bundles, policy('both')).first;

  it('is needed until it is ready', () => {
    expect(phase([stored(bundle)])).toMatchObject({ phase: 'held', hold: 'approval' });
  });

  it('is not asked for afterwards', () => {
    const complete = reachable({ images: allListed(bundle) });
    expect(phase([stored(bundle, { readyAt: NOON, activatedAt: NOON })], complete)).toMatchObject({
      phase: 'activated',
      withdrawn: undefined,
    });
  });
});

describe('a release that was rejected by its name', () => {
  const rejectedNames = [{ name: 'ocp', version: '4.13.7', reason: 'loses data', at: NOON }];
  const said = (verdict: Verdict['verdict'], at: number): Partial<Stored> => ({
    rejectedNames,
    verdicts: [{ bundleId: bundle.bundleId, verdict, at }],
  });

  it.each<[what: string, stored: Partial<Stored>, is: string]>([
    ['refuses its bundle', { rejectedNames }, 'rejected'],
    ['counts over an earlier approval of the digest', said('approved', NOON - 1), 'rejected'],
    ['does not count over a later approval of the digest', said('approved', NOON + 1), 'adopted'],
    [
      'says nothing about another version',
      { rejectedNames: [{ name: 'ocp', version: '4.13.8', at: NOON }] },
      'adopted',
    ],
    [
      'says nothing about another stream',
      { rejectedNames: [{ name: 'tools', version: '4.13.7', at: NOON }] },
      'adopted',
    ],
  ])('%s', (_what, given, is) => {
    expect(outcome(judge(plugged, [], policy('signature'), given))).toBe(is);
  });

  it('counts more than the settings, and is shown with its reason before and after the stick is seen', () => {
    const { assessment } = judge(plugged, [], policy('approval', [bundle.bundleId]), { rejectedNames });
    const report = reportOf({ observed: plugged, memory: plugged, assessment }, still);
    expect(report.rejected).toMatchObject([
      { reason: { code: 'trust/rejected', message: expect.stringContaining('Reason: loses data.') } },
    ]);
    expect(report.rejectedNames).toEqual([
      {
        name: 'ocp',
        version: '4.13.7',
        since: new Date(NOON).toISOString(),
        reason: {
          code: 'trust/rejected',
          message:
            "ocp@4.13.7 was rejected on this node, also for sticks that come later. Reason: loses data. 'stickpin approve ocp@4.13.7' takes that back",
        },
      },
    ]);
  });

  it('stops an adopted bundle too', () => {
    const { assessment } = judge(observation({}), [stored()], policy('signature'), { rejectedNames });
    expect(assessment.bundles).toMatchObject([
      { phase: 'held', hold: 'approval', withdrawn: { code: 'trust/rejected' } },
    ]);
  });
});
