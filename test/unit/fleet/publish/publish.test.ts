import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  parseNodeStatus,
  parseStatusAnnotation,
  releaseLabel,
  versionInLabels,
} from '../../../../src/domain/fleet/node-status.ts';
import { newPause } from '../../../../src/domain/fleet/pause.ts';
import type { ConditionStatus } from '../../../../src/domain/model/condition.ts';
import {
  healthOf,
  labelsOf,
  nodeStatusOf,
  publishedPauses,
  publishedStatus,
  shortBundle,
} from '../../../../src/fleet/publish/node-status.ts';
import type { OwnBundle } from '../../../../src/fleet/publish/own-report.ts';
import { ownBundle, ownReport } from '../../../support/kubernetes/own-report.ts';

const proven = ownBundle({ version: '4.13.6', sequence: 6, phase: 'proven', current: true });
const ready = ownBundle({ phase: 'ready' });
const verdict = (type: string, status: ConditionStatus, reason = 'Because') => ({
  type,
  status,
  reason,
  message: 'so it is',
});

describe('nodeStatusOf', () => {
  it('gives other nodes what they need for the order, and survives its own reader', () => {
    const rollOut = { begun: true, fails: true, disturbedMs: 7 };
    const degraded = ownBundle({ rollOut, current: true, conditions: [verdict('Degraded', 'True')] });
    const status = nodeStatusOf(ownReport([degraded]));
    expect(status).toMatchObject({ releases: [{ ...rollOut, degraded: true }] });
    expect(parseStatusAnnotation(JSON.stringify(publishedStatus(status)))).toEqual(status);
  });

  it('tells the current release first, then the newest', () => {
    const retired = ownBundle({ version: '4.13.4', phase: 'retired', adoptedAt: '2026-12-01T00:00:00.000Z' });
    const newer = ownBundle({ version: '4.14.0', phase: 'held', adoptedAt: '2026-11-24T00:00:00.000Z' });
    const { releases } = nodeStatusOf(ownReport([retired, ready, newer, proven]));
    expect(releases.map(({ version }) => version)).toEqual(['4.13.6', '4.14.0', '4.13.7', '4.13.4']);
    expect(releases[0]).toEqual({
      name: 'ocp',
      version: '4.13.6',
      bundle: shortBundle(proven),
      phase: 'proven',
      current: true,
    });
  });

  it('names what only a person ends before anything else that holds a release that is ready', () => {
    const reason = { code: 'fleet/not-ready', message: 'worker-2 is not ready' };
    const fleet = { code: 'fleet/not-ready', releasedBy: 'event' } as const;
    const manual = { code: 'engine/manual', releasedBy: 'person' } as const;
    const reasonOf = (activationHolds: OwnBundle['activationHolds']) =>
      nodeStatusOf(ownReport([ownBundle({ phase: 'ready', reason, activationHolds })])).releases[0]?.reason;
    expect([reasonOf([fleet]), reasonOf([fleet, manual])]).toEqual(['fleet/not-ready', 'engine/manual']);
  });

  it('tells the architecture of the node, also in the annotation', () => {
    const status = nodeStatusOf(ownReport([ready], { arch: 'arm64' }));
    expect(parseNodeStatus(JSON.parse(JSON.stringify(publishedStatus(status))))?.arch).toBe('arm64');
    expect(nodeStatusOf(ownReport([ready]))).not.toHaveProperty('arch');
  });

  it('leaves out what no key signed, and so has no name', () => {
    expect(nodeStatusOf(ownReport([ownBundle({ name: '', version: '', phase: 'held' })])).releases).toEqual([]);
  });

  it.each([true, false, undefined])('says whether containers run, where that shows: %s', (runs) => {
    const report = ownReport([ownBundle({ phase: 'activated', ...(runs !== undefined && { runs }) })]);
    expect(nodeStatusOf(report).releases[0]?.runs).toBe(runs);
  });

  it('counts bytes of a preload that is alone, and images otherwise', () => {
    const bundle = ownBundle({ images: { total: 10, present: 3, pinned: 0 } });
    const progress = { doneBytes: 59, totalBytes: 100 };
    const other = ownBundle({ version: '4.14.0' });
    expect(nodeStatusOf(ownReport([bundle], { progress })).releases[0]?.percent).toBe(59);
    expect(
      nodeStatusOf(ownReport([bundle, other], { progress }))
        .releases.map(({ percent }) => percent)
        .sort(),
    ).toEqual([0, 30]);
    const published = publishedStatus(nodeStatusOf(ownReport([bundle], { progress })));
    expect(published.releases[0]?.percent).toBe(50);
  });

  it('tells all releases, and how many there are beyond a hundred', () => {
    const bundles = Array.from({ length: 120 }, (_, at) => ownBundle({ name: `stream-${at}` }));
    const status = nodeStatusOf(ownReport(bundles));
    expect([status.releases.length, status.more]).toEqual([100, 20]);
    expect(parseNodeStatus(JSON.parse(JSON.stringify(status)))).toEqual(status);
    expect(nodeStatusOf(ownReport(bundles.slice(0, 100)))).not.toHaveProperty('more');
  });

  it.each(['Preloaded', 'Pinned'])('says that a release is incomplete whose condition %s is False', (type) => {
    const incomplete = (phase: 'preloading' | 'proven', status: ConditionStatus) =>
      nodeStatusOf(ownReport([ownBundle({ phase, conditions: [verdict(type, status)] })])).releases[0]?.incomplete;
    expect(incomplete('proven', 'False')).toBe(true);
    expect(incomplete('proven', 'Unknown')).toBeUndefined();
    expect(incomplete('preloading', 'False')).toBeUndefined();
  });
});

describe('publishedStatus', () => {
  const published = (...bundles: Parameters<typeof ownReport>[0][number][]) =>
    publishedStatus(nodeStatusOf(ownReport(bundles)));

  it('tells first what others may wait for, then what was activated last', () => {
    const streams = Array.from({ length: 30 }, (_, at) =>
      ownBundle({
        name: `stream-${String(at).padStart(2, '0')}`,
        phase: 'proven',
        current: true,
        adoptedAt: '2026-11-24T00:00:00.000Z',
        activatedAt: `2026-11-24T00:00:${at + 10}.000Z`,
      }),
    );
    const { releases, more } = published(
      ...streams,
      ownBundle({ phase: 'ready', adoptedAt: '2026-01-01T00:00:00.000Z' }),
    );
    expect(releases.slice(0, 3).map(({ name }) => name)).toEqual(['ocp', 'stream-29', 'stream-28']);
    expect(releases.length + (more ?? 0)).toBe(31);
    expect(more).toBeGreaterThan(0);
  });

  it('tells the rest of what is current before what is past, and counts what the wire left out', () => {
    const old = ownBundle({ version: '4.13.5', phase: 'superseded' });
    const refused = ownBundle({ version: '4.13.8', phase: 'rejected' });
    expect(published(old, refused, ready, proven).releases.map(({ phase }) => phase)).toEqual([
      'ready',
      'proven',
      'rejected',
      'superseded',
    ]);
    expect(publishedStatus({ version: 1, releases: [], more: 20 }).more).toBe(20);
  });

  it('fits into 2 KiB, tells how many are left out, and can be read by others', () => {
    const version = fc.stringMatching(/^[0-9]{1,60}[+é]{0,60}$/);
    fc.assert(
      fc.property(fc.uniqueArray(version, { maxLength: 40 }), (versions) => {
        const status = published(proven, ...versions.map((text) => ownBundle({ version: text })));
        expect(Buffer.byteLength(JSON.stringify(status))).toBeLessThanOrEqual(2_048);
        expect(status.releases.length + (status.more ?? 0)).toBe(1 + versions.length);
        expect(parseNodeStatus(JSON.parse(JSON.stringify(status)))).toEqual(status);
      }),
      { numRuns: 50 },
    );
  });
});

describe('pauses in the annotation', () => {
  const longest = { name: 'n'.repeat(63), version: '4.13.7', node: 'w'.repeat(63), by: 'uid 0', forMs: 3_600_000 };
  const said = (at: number) => newPause({ ...longest, why: `${at} ${'é'.repeat(90)}`, atMs: at });
  const lifted = { node: 'worker-2', by: 'uid 0' };
  const annotationOf = (report: ReturnType<typeof ownReport>) =>
    JSON.stringify(publishedStatus(nodeStatusOf({ ...report, pauses: publishedPauses(report) })));

  it('are those of this node, those that last first, and leave room for releases', () => {
    const own = Array.from({ length: 16 }, (_, at) => (at < 14 ? { ...said(at), lifted } : said(at)));
    const heard = { ...said(99), from: 'worker-2' };
    const text = annotationOf(ownReport([proven, ready], { pauses: [heard, ...own] }));
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(2_048);
    const { pauses = [], releases } = parseStatusAnnotation(text) ?? {};
    expect(pauses.slice(0, 2).map(({ id }) => id)).toEqual([said(14).id, said(15).id]);
    expect(pauses.some(({ id }) => id === heard.id)).toBe(false);
    expect(releases).toHaveLength(2);
  });

  it('of other nodes are plain text', () => {
    const text = annotationOf(ownReport([], { pauses: [{ ...said(0), why: 'a\u001b[2J\nb' }] }));
    expect(parseStatusAnnotation(text)?.pauses).toMatchObject([{ why: 'a [2J b' }]);
  });

  it.each([
    ['no id', { id: '../x' }],
    ['an endless reason', { why: 'x'.repeat(101) }],
    ['no time', { until: 'soon' }],
    ['no one who said it', { by: '' }],
  ])('of other nodes that are malformed make the status unreadable: %s', (_, fault) => {
    expect(parseNodeStatus({ version: 1, releases: [], pauses: [{ ...said(0), ...fault }] })).toBeUndefined();
    expect(parseNodeStatus({ version: 1, releases: [], pauses: Array(65).fill(said(0)) })).toBeUndefined();
  });
});

describe('labelsOf', () => {
  it('names the activated release and the newest one that is ready', () => {
    expect(labelsOf(ownReport([proven, ready]))).toEqual({
      'stickpin.io/ready-ocp': '4.13.7',
      'stickpin.io/release-ocp': '4.13.6',
    });
  });

  it('has none for what is not ready, and none for what was rolled back', () => {
    const rolledBack = ownBundle({ phase: 'activated', current: false, conditions: [verdict('Preloaded', 'False')] });
    expect(labelsOf(ownReport([ownBundle(), rolledBack]))).toEqual({});
    // Also while another reason is shown, as that the runtime does not answer.
    const reason = { code: 'runtime/unreachable', message: 'the runtime does not answer' };
    const loaded = ownBundle({ phase: 'activated', current: false, rolledBack: true, reason });
    expect(labelsOf(ownReport([loaded, proven]))).toMatchObject({ 'stickpin.io/ready-ocp': '4.13.6' });
    expect(nodeStatusOf(ownReport([loaded])).releases).toMatchObject([{ rolledBack: true }]);
  });

  it.each(['Preloaded', 'Pinned'])('takes the label away when %s is False, not when it is Unknown', (type) => {
    const labels = (status: ConditionStatus) =>
      labelsOf(ownReport([ownBundle({ phase: 'ready', conditions: [verdict(type, status)] })]));
    expect(labels('False')).toEqual({});
    expect(labels('Unknown')).toEqual({ 'stickpin.io/ready-ocp': '4.13.7' });
  });

  it('replaces what is no valid label', () => {
    expect(versionInLabels({ version: '1.2.3+build', bundle: '0123456789abcdef' })).toBe('v-0123456789abcdef');
    expect(releaseLabel('ready', 'a'.repeat(55))).toBe(`stickpin.io/ready-${'a'.repeat(55)}`);
    expect(releaseLabel('ready', 'a'.repeat(56))).toMatch(/^stickpin\.io\/ready-[0-9a-f]{12}$/);
    expect(releaseLabel('release', 'ends-')).toMatch(/^stickpin\.io\/release-[0-9a-f]{12}$/);
  });

  it('makes only labels that Kubernetes takes', () => {
    const name = fc.stringMatching(/^[a-z0-9][a-z0-9-]{0,62}$/);
    const form = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
    fc.assert(
      fc.property(name, fc.string({ minLength: 1 }), (stream, version) => {
        const [, key = ''] = releaseLabel('release', stream).split('/');
        const value = versionInLabels({ version, bundle: '0123456789abcdef' });
        for (const text of [key, value]) {
          expect(text).toMatch(form);
          expect(text.length).toBeLessThanOrEqual(63);
        }
      }),
    );
  });
});

describe('healthOf', () => {
  const degraded = ownBundle({ conditions: [verdict('Degraded', 'True')] });
  const gone =
    'worker-1 stopped giving ocp 4.13.7 (0/2 images). It continues when a node has it again; if none has it, plug its stick into any node.';
  const lost = ownBundle({ phase: 'preloading', reason: { code: 'engine/no-source', message: gone } });
  const waits = { code: 'media/peer-waited-for', message: 'place 2' };
  const queued = ownBundle({ phase: 'held', hold: 'media', reason: waits });
  const progress = { total: 2, done: 1, places: [{ place: 2, node: 'worker-2', state: 'waits' as const }] };
  const problem = { code: 'store/damaged', message: 'state.db was damaged' };
  const away = { reachable: false, reason: 'crio does not answer' };

  it.each([
    ['the daemon is silent', undefined, 'Unknown', 'DaemonSilent', /systemctl status stickpin/],
    ['nothing is known', ownReport([]), 'True', 'AsExpected', /^no release is known$/],
    ['all is well', ownReport([ready, proven]), 'True', 'AsExpected', /^ocp 4.13.6 is proven, ocp 4.13.7 is ready$/],
    ['no runtime', ownReport([degraded], { runtime: away }), 'False', 'RuntimeUnreachable', /^crio does not answer$/],
    ['degraded', ownReport([degraded]), 'False', 'ReleaseDegraded', /^ocp 4.13.7: so it is$/],
    [
      'a stick of a stream that it never had is wanted',
      ownReport([], { wanted: [{ name: 'ocp', version: '5', message: 'plug in 5' }] }),
      'True',
      'AsExpected',
      /^no release is known$/,
    ],
    [
      'a stick is wanted',
      ownReport([ownBundle()], { wanted: [{ name: 'ocp', version: '5', message: 'plug in 5' }] }),
      'False',
      'StickWanted',
      /^plug in 5$/,
    ],
    ['its node went away', ownReport([lost]), 'False', 'StickWanted', /plug its stick into any node\.$/],
    ['it is in a queue', ownReport([queued]), 'True', 'AsExpected', /^ocp 4.13.7 is held$/],
    [
      'it goes next in a roll-out',
      ownReport([ownBundle({ phase: 'ready', rollOut: { progress: { ...progress, leads: true } } })]),
      'True',
      'AsExpected',
      /^ocp 4\.13\.7 is ready\. Roll-out of ocp 4\.13\.7: 1 of 2 nodes are done; worker-2 is next$/,
    ],
    [
      'another node goes next',
      ownReport([ownBundle({ phase: 'ready', rollOut: { progress } })]),
      'True',
      'AsExpected',
      /^ocp 4\.13\.7 is ready$/,
    ],
    ['lost state', ownReport([], { stateProblems: [problem] }), 'False', 'StateDamaged', /^state.db was damaged$/],
  ])('%s', (_, report, status, reason, message) => {
    expect(healthOf(report)).toEqual({
      type: 'StickpinHealthy',
      status,
      reason,
      message: expect.stringMatching(message),
    });
  });

  it('does not change with each image of a preload', () => {
    const at = (present: number) => ownReport([ownBundle({ images: { total: 10, present, pinned: 0 } })]);
    expect(healthOf(at(1))).toEqual(healthOf(at(9)));
  });
});
