import { describe, expect, it } from 'vitest';
import type { FoundBundle } from '../../../../../src/domain/model/medium.ts';
import { nodeEvents } from '../../../../../src/domain/report/node-events.ts';
import { reportOf } from '../../../../../src/domain/report/report.ts';
import type { Snapshot } from '../../../../../src/domain/report/snapshot.ts';
import {
  allListed,
  FACTS,
  found,
  judge,
  medium,
  NOON,
  observation,
  reachable,
  refused,
  type Scene,
  stored,
  verified,
} from '../../../../support/daemon/scenario.ts';

const STILL = { doneBytes: 0, totalBytes: 0, waitingTransfers: 0 };
const old = verified({ version: '4.13.6', sequence: 6 });
const current = verified();
const unapproved: FoundBundle = {
  kind: 'unapproved',
  path: 'stickpin/next',
  bundleId: verified({ version: '4.13.8' }).bundleId,
};

/** On a node that runs 4.13.7, and has given up 4.13.6 and rejected one more. */
function shown(over: Partial<Scene>) {
  const scene = observation({ runtime: reachable({ images: allListed(current) }), ...over });
  const bundles = [
    stored(old, { readyAt: 1, activatedAt: 1, retiredAt: 2 }),
    stored(current, { readyAt: NOON, activatedAt: NOON }),
  ];
  const { assessment } = judge(scene, bundles);
  const rejections = assessment.rejections.map((one) => ({ ...one, reason: REJECTED }));
  const isByHand = over.media?.some(({ label }) => label === 'rejected1') === true;
  const snapshot: Snapshot = {
    observed: scene,
    memory: scene,
    assessment: { ...assessment, ...(isByHand && { rejections }) },
  };
  const report = reportOf(snapshot, STILL);
  const hooks = [...nodeEvents(snapshot, report)].flatMap(([hook, all]) => all.map(() => hook));
  return { status: report.status, verdict: report.verdict, hooks: hooks.filter((hook) => hook !== 'plugged') };
}

const REJECTED = {
  code: 'trust/rejected',
  data: { kind: 'found', bundleId: old.bundleId, bundle: { name: 'ocp', version: '4.13.5' } },
} as const;

describe('the stick of what was given up or rejected', () => {
  it('may go, and nobody is called', () => {
    expect(shown({ media: [medium('sdb1', [found(old)])] })).toEqual({
      status: expect.stringMatching(/^REMOVE THE STICK \(A-21\): ocp 4\.13\.6 was given up on this node\./),
      verdict: 'good',
      hooks: ['removable'],
    });
    expect(shown({ media: [medium('rejected1', [refused()])] })).toEqual({
      status: expect.stringMatching(/^REMOVE THE STICK \(K-16\): /),
      verdict: 'good',
      hooks: ['removable'],
    });
  });

  it('stays while a bundle on it, or on another stick, waits for a person', () => {
    const [both, two] = [
      shown({ media: [medium('sdb1', [found(old), unapproved])] }),
      shown({ media: [medium('sdb1', [unapproved]), medium('sdc1', [found(old)])] }),
    ];
    expect(both.status).toMatch(/^LEAVE THE STICK IN \(K-15\): /);
    for (const { hooks, status } of [both, two])
      expect([hooks, status.startsWith('REMOVE')]).toEqual([['held'], false]);
    const unknown = shown({ media: [medium('sdb1', [found(old), refused('unknown key', 'bundle/unknown-key')])] });
    expect(unknown).toMatchObject({ status: expect.stringMatching(/^CALL SUPPORT \(K-03\): /), verdict: 'failed' });
  });

  it('does not hide what support is called for', () => {
    const facts = { ...FACTS, settingsFault: 'stickpin.toml: x is no setting' };
    for (const media of [[medium('sdb1', [found(old)])], [medium('rejected1', [refused()])]]) {
      expect(shown({ facts, media })).toEqual({
        status: expect.stringMatching(/^CALL SUPPORT \(C-01\): /),
        verdict: 'failed',
        hooks: ['failed'],
      });
    }
  });
});
