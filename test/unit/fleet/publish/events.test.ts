import { describe, expect, it } from 'vitest';
import { newPause, type Pause } from '../../../../src/domain/fleet/pause.ts';
import { eventsOf, type Reported, reportedAfter } from '../../../../src/fleet/publish/events.ts';
import { nodeStatusOf } from '../../../../src/fleet/publish/node-status.ts';
import type { OwnBundle } from '../../../../src/fleet/publish/own-report.ts';
import { ownBundle, ownReport } from '../../../support/kubernetes/own-report.ts';

const nothing: Reported = reportedAfter(ownReport([]));
const reasons = (told: Reported, bundles: readonly OwnBundle[]) =>
  eventsOf(told, ownReport(bundles)).map(({ reason }) => reason);
const degraded = {
  type: 'Degraded',
  status: 'True',
  reason: 'ImageMissing',
  message: '1 of 10 images missing',
} as const;
const unplugged = { code: 'engine/no-source', message: 'Stick removed. Plug it in again to continue.' };
const held = ownBundle({ phase: 'held', hold: 'media', reason: unplugged });
const rolledBack = ownBundle({
  phase: 'activated',
  reason: { code: 'engine/rolled-back', message: 'ocp 4.13.6 runs again' },
});

describe('eventsOf', () => {
  it('tells the life of a release, each step once', () => {
    const told: string[][] = [];
    let before = nothing;
    for (const phase of ['detected', 'preloading', 'preloading', 'ready', 'activated', 'active', 'proven'] as const) {
      const report = ownReport([ownBundle({ phase })]);
      told.push(eventsOf(before, report).map(({ reason }) => reason));
      before = reportedAfter(report);
    }
    expect(told).toEqual([
      ['BundleFound'],
      ['PreloadBegun'],
      [],
      ['ReleaseReady'],
      ['ReleaseActivated'],
      [],
      ['ReleaseProven'],
    ]);
  });

  it('says once which stick is wanted of a release that is unknown here', () => {
    const wanted = [{ name: 'ocp', version: '4.14.0', message: 'Plug its stick into any node.' }];
    const report = { ...ownReport([]), wanted };
    expect(eventsOf(nothing, report)).toMatchObject([
      { type: 'Warning', reason: 'StickWanted', message: 'Plug its stick into any node.' },
    ]);
    expect(eventsOf(reportedAfter(report), report)).toEqual([]);
    expect(nodeStatusOf(report).wants).toEqual([{ name: 'ocp', version: '4.14.0' }]);
    expect(nodeStatusOf(ownReport([]))).not.toHaveProperty('wants');
  });

  it('says once that a roll-out was paused here, and lifted here', () => {
    const said = { name: 'ocp', version: '4.13.7', node: 'worker-1', by: 'uid 0', why: 'no\npower', atMs: 0, forMs: 1 };
    const pause = newPause(said);
    const lifted = { ...pause, lifted: { node: 'worker-1', by: 'uid 1000' } };
    const reportOf = (one: Pause) => ownReport([], { pauses: [one] });
    expect(eventsOf(nothing, reportOf(pause))).toMatchObject([
      {
        type: 'Warning',
        reason: 'RollOutPaused',
        message: `The roll-out of ocp 4.13.7 is paused until ${pause.until} by uid 0: no power. 'stickpin fleet resume ${pause.id}' on this node or one of the control plane ends the pause`,
      },
    ]);
    expect(eventsOf(reportedAfter(reportOf(pause)), reportOf(lifted))).toMatchObject([
      {
        type: 'Normal',
        reason: 'RollOutResumed',
        message: expect.stringContaining(`uid 1000 lifted pause ${pause.id}`),
      },
    ]);
    expect(eventsOf(reportedAfter(reportOf(lifted)), reportOf(lifted))).toEqual([]);
    const elsewhere = { ...lifted, from: 'worker-2', liftedFrom: 'worker-2' };
    expect(eventsOf(nothing, reportOf(elsewhere))).toEqual([]);
  });

  it('says what a person would ask', () => {
    const [found, begun] = eventsOf(nothing, ownReport([ownBundle()]));
    expect(found?.message).toBe('ocp 4.13.7 was found on sdb1: signed by factory-2026');
    expect(begun?.message).toBe('The preload of ocp 4.13.7 has begun: 10 images, 16.0 GiB');
    const [wanted] = eventsOf(nothing, ownReport([held])).filter(({ reason }) => reason === 'StickWanted');
    expect(wanted?.message).toBe(
      'Stick removed. Plug it in again to continue. A stick in any node of the cluster will do.',
    );
  });

  it('says nothing again after a restart, when the Node says what was told', () => {
    const report = ownReport([held, ownBundle({ version: '4.13.6', phase: 'proven', conditions: [degraded] })]);
    const published = JSON.parse(JSON.stringify(nodeStatusOf(report)));
    expect(eventsOf({ releases: published.releases, troubleIds: undefined }, report)).toEqual([]);
  });

  it('begins on a node that never told anything with what needs a person', () => {
    const never: Reported = { releases: undefined, troubleIds: undefined };
    expect(reasons(never, [ownBundle({ phase: 'proven' }), { ...held, version: '4.14.0' }])).toEqual(['StickWanted']);
  });

  it.each([
    ['a rollback', rolledBack, 'ReleaseRolledBack'],
    ['a lost stick', held, 'StickWanted'],
    ['damage', ownBundle({ phase: 'activated', conditions: [degraded] }), 'ReleaseDegraded'],
  ])('warns of %s once', (_, bundle, reason) => {
    const activated = reportedAfter(ownReport([ownBundle({ phase: 'activated' })]));
    expect(reasons(activated, [bundle])).toEqual([reason]);
    expect(reasons(reportedAfter(ownReport([bundle])), [bundle])).toEqual([]);
  });

  it('wants no stick while the daemon still looks what is plugged in', () => {
    const looking = { code: 'media/looking', message: 'stickpin has just started' };
    expect(reasons(nothing, [ownBundle({ phase: 'held', hold: 'media', reason: looking })])).toEqual(['BundleFound']);
  });

  it('tells a rejection once while it lasts, and again when it came back', () => {
    const rejected = [{ medium: 'sdb1', path: 'stickpin/ocp', reason: { code: 'bundle/unknown-key', message: 'why' } }];
    const report = ownReport([], { rejected });
    expect(eventsOf(nothing, report)).toMatchObject([
      { reason: 'BundleRejected', type: 'Warning', message: 'stickpin/ocp on sdb1 was rejected: why' },
    ]);
    expect(eventsOf(reportedAfter(report), report)).toEqual([]);
    expect(eventsOf(reportedAfter(ownReport([])), report)).toHaveLength(1);
  });

  it('gives one occurrence the same id, and another activation another', () => {
    const id = (activatedAt: string) =>
      eventsOf(nothing, ownReport([ownBundle({ phase: 'activated', activatedAt })])).at(-1)?.id;
    expect(id('2026-11-23T10:00:00Z')).toBe(id('2026-11-23T10:00:00Z'));
    expect(id('2026-11-23T10:00:00Z')).not.toBe(id('2026-11-23T11:00:00Z'));
  });

  it('keeps a message within what the API takes', () => {
    const reason = { code: 'engine/no-source', message: 'é'.repeat(3_000) };
    const [, event] = eventsOf(nothing, ownReport([{ ...held, reason }])).toReversed();
    expect(Buffer.byteLength(event?.message ?? '')).toBeLessThanOrEqual(1_024);
  });
});
