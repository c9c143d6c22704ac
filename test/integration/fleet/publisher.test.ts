import { afterEach, it as base, beforeEach, expect } from 'vitest';
import { KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { readCredentials } from '../../../src/fleet/kubernetes/credentials.ts';
import { KubernetesCluster } from '../../../src/fleet/kubernetes/kubernetes-cluster.ts';
import { applyFields, getNode } from '../../../src/fleet/kubernetes/own-node.ts';
import { Publisher, withdraw } from '../../../src/fleet/kubernetes/publisher.ts';
import { shortBundle } from '../../../src/fleet/publish/node-status.ts';
import type { OwnReport } from '../../../src/fleet/publish/own-report.ts';
import { NEVER_ABORTED } from '../../../src/platform/async/abort.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { eventually } from '../../support/eventually.ts';
import type { Fault } from '../../support/kubernetes/api-server/start-api-server.ts';
import { fastClock } from '../../support/kubernetes/fast-clock.ts';
import { ownBundle, ownReport } from '../../support/kubernetes/own-report.ts';
import { startTestCluster, type TestCluster } from '../../support/kubernetes/test-cluster.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const it = base.runIf(have('openssl'));

const proven = ownBundle({ version: '4.13.6', sequence: 6, phase: 'proven', current: true });
const ready = ownBundle({ phase: 'ready' });
const serves = { address: '10.0.0.1', port: 9777, bundles: [digestOf('b')] };

let test: TestCluster;
let api: KubernetesApi;
let log: RecordingLog;
let publisher: Publisher;
let report: OwnReport | undefined;
let isUp: boolean;
/** How often it was asked whether the daemon is up. */
let asked = 0;
let stop: () => Promise<void>;

beforeEach(async () => {
  test = await startTestCluster();
  const kubeconfig = test.kubeconfigOf('n1', test.authority.node('n1'));
  api = new KubernetesApi((signal) => readCredentials(kubeconfig, signal));
  log = createRecordingLog();
  [report, isUp] = [ownReport([proven, ready]), true];
  start();
});
afterEach(async () => {
  await stop();
  await test[Symbol.asyncDispose]();
});

/** A minute takes 0.3 s. */
function start(): void {
  const common = { api, clock: fastClock(200), random: () => 0.5, log };
  const cluster = new KubernetesCluster({ ...common, hostname: 'n1' });
  publisher = new Publisher({
    ...common,
    cluster,
    report: () => report,
    isDaemonUp: () => {
      asked += 1;
      return isUp;
    },
    serves: () => serves,
    mark: { set: async () => undefined },
  });
  const stopping = new AbortController();
  const running = Promise.all([cluster.run(stopping.signal), publisher.run(stopping.signal)]);
  stop = async () => {
    stopping.abort();
    await running;
  };
}

function tell(next: OwnReport): void {
  report = next;
  publisher.changed();
}

const node = () => test.server.node('n1');
const annotation = (name: string) => JSON.parse(node().metadata.annotations[`stickpin.io/${name}`] ?? 'null');
const condition = () => node().status.conditions.find(({ type }) => type === 'StickpinHealthy');
const written = () =>
  test.server.seen.filter(({ line }) => !line.startsWith('GET')).map(({ line }) => line.split('?')[0]);
const label = (name: string) => node().metadata.labels[`stickpin.io/${name}`];
const inMinutes = (minutes: number) => systemClock.sleep(minutes * 300, NEVER_ABORTED);

const isPublished = () => expect([label('ready-ocp'), condition()?.status]).toEqual(['4.13.7', 'True']);

it('tells annotations, labels and the condition, and leaves those of others', async () => {
  await eventually(isPublished);
  expect(label('release-ocp')).toBe('4.13.6');
  expect(annotation('serves')).toEqual({ version: 1, ...serves });
  expect(annotation('status').releases).toEqual([
    { name: 'ocp', version: '4.13.7', bundle: shortBundle(ready), phase: 'ready' },
    { name: 'ocp', version: '4.13.6', bundle: shortBundle(proven), phase: 'proven', current: true },
  ]);
  expect(condition()).toEqual({
    type: 'StickpinHealthy',
    status: 'True',
    reason: 'AsExpected',
    message: 'ocp 4.13.6 is proven, ocp 4.13.7 is ready',
    lastHeartbeatTime: expect.stringMatching(/Z$/),
    lastTransitionTime: condition()?.lastHeartbeatTime,
  });
  expect(node().status.conditions.map(({ type }) => type)).toEqual(['StickpinHealthy', 'Ready']);
  expect(node().metadata.labels).toHaveProperty(['kubernetes.io/hostname'], 'n1');
  expect(node().metadata.managedFields.map(({ manager }) => manager)).toEqual(['stickpin']);
});

it('writes nothing again while nothing changes, nor after a restart', async () => {
  await eventually(isPublished);
  expect(written()).toHaveLength(2);
  tell(ownReport([proven, { ...ready }]));
  await inMinutes(3);
  await stop();
  start();
  const before = test.server.seen.length;
  await eventually(() => expect(test.server.seen.length).toBeGreaterThan(before + 3));
  await inMinutes(3);
  expect(written()).toHaveLength(2);
  expect(log.lines.filter(({ message }) => !message.includes('does not show other nodes'))).toEqual([]);
});

it('writes at most once a minute, and at each 10 % of a preload', async () => {
  await eventually(isPublished);
  const fast = fastClock(200);
  const patches = () => written().filter((line) => line === 'PATCH /api/v1/nodes/n1').length;
  const before = patches();
  for (let done = 0; done <= 100; done += 1) {
    tell(ownReport([proven, ownBundle()], { progress: { doneBytes: done, totalBytes: 100 } }));
    await systemClock.sleep(9, NEVER_ABORTED);
  }
  await eventually(() => expect(annotation('status').releases[0].percent).toBe(100));
  expect(patches() - before).toBeLessThanOrEqual(1 + Math.ceil(fast.monotonic() / 60_000));
  const steps = patches();
  tell(ownReport([proven, ownBundle()], { progress: { doneBytes: 1_009, totalBytes: 1_010 } }));
  await eventually(() => expect(annotation('status').releases[0].percent).toBe(90));
  tell(ownReport([proven, ownBundle()], { progress: { doneBytes: 1_001, totalBytes: 1_010 } }));
  await inMinutes(3);
  expect(patches()).toBe(steps + 1);
});

it('makes each event once, also those between two writes, and none again after a restart', async () => {
  await eventually(isPublished);
  const version = '4.14.0';
  const phases = ['detected', 'preloading', 'ready', 'activated'] as const;
  for (const phase of phases) tell(ownReport([proven, ownBundle({ version, phase })]));
  await eventually(() => expect(test.server.events).toHaveLength(4));
  await stop();
  start();
  await inMinutes(4);
  expect(test.server.events.map(({ reason }) => reason)).toEqual([
    'BundleFound',
    'PreloadBegun',
    'ReleaseReady',
    'ReleaseActivated',
  ]);
  expect(test.server.events[0]).toMatchObject({
    type: 'Normal',
    message: 'ocp 4.14.0 was found on sdb1: signed by factory-2026',
    involvedObject: { kind: 'Node', name: 'n1', uid: 'uid-of-n1' },
    metadata: { namespace: 'default' },
    count: 1,
  });
});

it('gives back what another program took, and does not fight about what is not its own', async () => {
  await eventually(isPublished);
  test.server.setByOther('n1', { labels: { 'stickpin.io/ready-ocp': 'other', 'stickpin.io/mine': '1' } });
  await eventually(isPublished);
  const before = written().length;
  test.server.setByOther('n1', { labels: { 'stickpin.io/mine': '2' } });
  await inMinutes(3);
  expect(label('mine')).toBe('2');
  expect(written()).toHaveLength(before);
});

it('removes labels of releases that it did not set, of any stream, with one line', async () => {
  await eventually(isPublished);
  const foreign = { 'stickpin.io/ready-other': '9.9.9', 'stickpin.io/release-other': '', 'stickpin.io/mine': '1' };
  for (let time = 0; time < 2; time += 1) {
    test.server.setByOther('n1', { labels: foreign });
    await eventually(() => expect([label('ready-other'), label('release-other')]).toEqual([undefined, undefined]));
  }
  expect([label('mine'), label('ready-ocp'), label('release-ocp')]).toEqual(['1', '4.13.7', '4.13.6']);
  const lines = log.lines.filter(({ message }) => message.includes('Something else set labels'));
  expect(lines.map(({ message }) => message)).toEqual([
    'Something else set labels of releases of the own Node n1, which are removed: stickpin.io/ready-other, stickpin.io/release-other',
  ]);
});

it('says that something else writes where it serves, as a second machine of its name', async () => {
  await eventually(isPublished);
  const other = JSON.stringify({ version: 1, address: '10.0.0.99', port: 9777, bundles: [] });
  for (let time = 0; time < 2; time += 1) {
    test.server.setByOther('n1', { annotations: { 'stickpin.io/serves': other } });
    await eventually(() => expect(annotation('serves').address).toBe('10.0.0.1'));
  }
  const lines = log.lines.filter(({ message }) => message.includes('Two machines may have this name'));
  expect(lines.map(({ message }) => message)).toEqual([expect.stringContaining('10.0.0.99:9777')]);
});

it('takes a label away that does not hold any more, also when nothing else changes', async () => {
  await eventually(isPublished);
  const unpinned = { type: 'Pinned', status: 'False', reason: 'PinsPending', message: 'not all pinned' } as const;
  tell(ownReport([proven, { ...ready, conditions: [unpinned] }]));
  await eventually(() => expect(label('ready-ocp')).toBe('4.13.6'));
  tell(
    ownReport([
      { ...proven, conditions: [unpinned] },
      { ...ready, conditions: [unpinned] },
    ]),
  );
  await eventually(() => expect(label('ready-ocp')).toBeUndefined());
});

it('turns the condition Unknown when the daemon is silent for a while, with the right times', async () => {
  await eventually(isPublished);
  const first = condition();
  // Silence counts from when the daemon was last up, which is after that now.
  const before = asked;
  publisher.changed();
  await eventually(() => expect(asked).toBeGreaterThan(before));
  isUp = false;
  publisher.changed();
  await eventually(() => expect(condition()).toMatchObject({ status: 'Unknown', reason: 'DaemonSilent' }));
  const unknown = condition();
  expect(unknown?.lastTransitionTime).toBe(unknown?.lastHeartbeatTime);
  expect(
    Date.parse(String(unknown?.lastTransitionTime)) - Date.parse(String(first?.lastTransitionTime)),
  ).toBeGreaterThan(80_000);
  expect(label('ready-ocp')).toBe('4.13.7');
  isUp = true;
  tell(ownReport([proven]));
  await eventually(() => expect(condition()?.message).toBe('ocp 4.13.6 is proven'));
  const back = condition();
  tell(ownReport([proven, ready]));
  await eventually(() => expect(condition()?.message).toContain('ocp 4.13.7 is ready'));
  expect(condition()?.lastTransitionTime).toBe(back?.lastTransitionTime);
  expect(condition()?.lastHeartbeatTime).not.toBe(back?.lastHeartbeatTime);
});

it('writes what changed while the API server was away', async () => {
  await eventually(isPublished);
  await test.server.stop();
  tell(
    ownReport([
      { ...proven, phase: 'superseded', current: false },
      { ...ready, phase: 'activated', current: true },
    ]),
  );
  await inMinutes(2);
  await test.server.restart();
  await eventually(() => expect(label('release-ocp')).toBe('4.13.7'));
  await eventually(() => expect(test.server.events.map(({ reason }) => reason)).toEqual(['ReleaseActivated']));
});

const html = { 'content-type': 'text/html' };
const faults: readonly (readonly [string, Fault, RegExp])[] = [
  ['403', { code: 403 }, /status 403: a fault of the test/],
  ['409', { code: 409 }, /status 409: a fault of the test/],
  ['422', { code: 422 }, /status 422: a fault of the test/],
  ['429', { code: 429, headers: { 'retry-after': '1' } }, /status 429: a fault of the test/],
  ['500', { code: 500 }, /status 500: a fault of the test/],
  ['HTML with 500', { code: 500, headers: html, body: '<h1>Oops</h1>' }, /status 500 and text\/html instead of JSON/],
  ['HTML with 503', { code: 503, headers: html, body: '<h1>Busy</h1>' }, /status 503/],
  ['HTML with 200', { code: 200, headers: html, body: '<h1>Login</h1>' }, /status 200 and text\/html instead of JSON/],
  ['a cut connection', { code: 0 }, /is not reached: the connection was cut/],
];
const refused: Fault = { code: 403 };

it.each([
  ['/events', '403', refused, /status 403: a fault of the test/] as const,
  ['nodes/n1?field', '403', refused, /status 403: a fault of the test/] as const,
  ['nodes/n1?field', '409', { code: 409 }, /status 409: a fault of the test/] as const,
  ...faults.map((fault) => ['/status', ...fault] as const),
])('says once that %s is answered with %s, and writes the rest', async (part, _what, fault, why) => {
  await eventually(isPublished);
  test.server.fail((line) => (!line.startsWith('GET') && line.includes(part) ? fault : undefined));
  tell(ownReport([{ ...ready, phase: 'activated', current: true }]));
  const lines = () => log.lines.filter(({ message }) => message.includes('The own Node n1'));
  await eventually(() => expect(lines()).toHaveLength(1));
  expect(lines()[0]?.message).toMatch(why);
  expect(lines()[0]?.message).toMatch(/^The own Node n1 does not take everything that stickpin tells: [^\n]+$/);
  await inMinutes(3);
  expect(lines()).toHaveLength(1);
  if (part !== 'nodes/n1?field') expect(label('release-ocp')).toBe('4.13.7');
  if (part !== '/status') expect(condition()?.message).toBe('ocp 4.13.7 is activated');
  if (part !== '/events') expect(test.server.events).toHaveLength(1);
  test.server.fail(undefined);
  tell(ownReport([{ ...ready, phase: 'active', current: true }]));
  await eventually(() => expect(lines()).toHaveLength(2));
  expect(lines()[1]).toMatchObject({ level: 'info', message: 'The own Node n1 takes everything again' });
});

it('comes again when the API server says so, and not before', async () => {
  await eventually(isPublished);
  const later = { code: 429, headers: { 'retry-after': '600' } };
  test.server.fail((line) => {
    if (line.startsWith('PATCH /api/v1/nodes/n1?')) return { code: 500 };
    return line.startsWith('PATCH /api/v1/nodes/n1/status') ? later : undefined;
  });
  const tries = () => test.server.seen.filter(({ code }) => code === 429).length;
  tell(ownReport([{ ...ready, phase: 'activated', current: true }]));
  await eventually(() => expect(tries()).toBe(1));
  await inMinutes(8);
  expect(tries()).toBe(1);
  test.server.fail(undefined);
  await eventually(() => expect(condition()?.message).toBe('ocp 4.13.7 is activated'));
});

it('takes everything of its own away, and nothing else', async () => {
  await eventually(isPublished);
  test.server.setByOther('n1', { labels: { 'stickpin.io/mine': '1' } });
  await stop();
  await withdraw(api, 'n1', NEVER_ABORTED);
  const own = (keys: object) => Object.keys(keys).filter((key) => key.startsWith('stickpin.io/'));
  expect(own(node().metadata.annotations)).toEqual([]);
  expect(own(node().metadata.labels)).toEqual(['stickpin.io/mine']);
  expect(node().status.conditions.map(({ type }) => type)).toEqual(['Ready']);
  test.server.removeNode('n1');
  await withdraw(api, 'n1', NEVER_ABORTED);
  // A server-side apply makes a Node that is not there.
  expect(() => node()).toThrow();
});

it('makes no Node that goes away while it is written', async () => {
  await eventually(isPublished);
  const known = await getNode(api, 'n1', NEVER_ABORTED);
  await stop();
  test.server.removeNode('n1');
  const applied = applyFields(api, known, { annotations: {}, labels: {} }, NEVER_ABORTED);
  await expect(applied).rejects.toMatchObject({ code: 'kubernetes/conflict' });
  expect(() => node()).toThrow();
});
