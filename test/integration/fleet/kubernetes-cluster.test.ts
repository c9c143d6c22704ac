import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { KubernetesApi } from '../../../src/fleet/kubernetes/api.ts';
import { readCredentials } from '../../../src/fleet/kubernetes/credentials.ts';
import { KubernetesCluster } from '../../../src/fleet/kubernetes/kubernetes-cluster.ts';
import { servesAnnotation } from '../../../src/fleet/publish/own-report.ts';
import type { Clock } from '../../../src/platform/clock.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { eventually } from '../../support/eventually.ts';
import { createAuthority } from '../../support/fleet/authority.ts';
import type { Fault } from '../../support/kubernetes/api-server/start-api-server.ts';
import { statusOf } from '../../support/kubernetes/api-server/status.ts';
import { fastClock } from '../../support/kubernetes/fast-clock.ts';
import { startTestCluster, type TestCluster } from '../../support/kubernetes/test-cluster.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const FLEET_YAML = readFileSync('packaging/node/fleet.yaml', 'utf8');

let test: TestCluster;
let log: RecordingLog;
let cluster: KubernetesCluster;
let stop: () => Promise<void>;
/** Pauses of a second or nearly one, in milliseconds. */
let pauses: number[];

beforeEach(async () => {
  test = await startTestCluster();
  log = createRecordingLog();
  pauses = [];
  stop = async () => undefined;
});
afterEach(async () => {
  await stop();
  await test[Symbol.asyncDispose]();
});

function start(): void {
  const kubeconfig = test.kubeconfigOf('n1', test.authority.node('n1'));
  const api = new KubernetesApi((signal) => readCredentials(kubeconfig, signal));
  const fast = fastClock(100);
  const sleep: Clock['sleep'] = (ms, signal) => {
    pauses.push(ms);
    return fast.sleep(ms, signal);
  };
  cluster = new KubernetesCluster({ api, hostname: 'other', clock: { ...fast, sleep }, random: () => 0.5, log });
  const stopping = new AbortController();
  const running = cluster.run(stopping.signal);
  stop = async () => {
    stopping.abort();
    await running;
  };
}

const names = () => cluster.nodes().map(({ name }) => name);
const levels = () => log.lines.map(({ level }) => level);
const requests = (pattern: RegExp) => test.server.seen.filter(({ line }) => pattern.test(line)).length;
const LISTS = /^GET \/api\/v1\/nodes\?(?!.*watch=true)/;
const WATCHES = /watch=true/;

async function startWithRole(): Promise<void> {
  test.server.apply(FLEET_YAML);
  start();
  // Before the first answer nobody may believe that this node is alone.
  expect([names(), cluster.trouble()]).toEqual([[], 'It was not asked yet.']);
  await eventually(() => expect(test.server.watches()).toBe(1));
}

describe.runIf(have('openssl'))('with the ClusterRole of fleet.yaml', () => {
  beforeEach(startWithRole);

  it('knows all nodes, the own name of the certificate, and the own address', async () => {
    expect(names()).toEqual(['n1', 'n2', 'n3']);
    expect([cluster.self(), cluster.address(), cluster.trouble()]).toEqual(['n1', '10.0.0.1', undefined]);
    expect(log.lines).toEqual([]);
  });

  it('hears what changes while the server ends its watch', async () => {
    test.server.endWatches();
    test.server.setAddress('n1', '10.0.0.8');
    await eventually(() => expect(cluster.address()).toBe('10.0.0.8'));
  });

  it('learns an own address that comes after the Node, as from a cloud provider', async () => {
    await stop();
    test.server.removeNode('n1');
    test.server.addNode('n1');
    start();
    await eventually(() => expect(names()).toHaveLength(3));
    expect(cluster.address()).toBeUndefined();
    await eventually(() => expect(test.server.watches()).toBe(1));
    test.server.setAddress('n1', '10.0.0.7');
    await eventually(() => expect(cluster.address()).toBe('10.0.0.7'));
    expect(requests(WATCHES)).toBe(2);
  });

  it('follows what other nodes tell, and nodes that come and go', async () => {
    const bundles = [digestOf('a')];
    const text = servesAnnotation({ address: '10.0.0.2', port: 9777, bundles });
    let changes = 0;
    cluster.onChange(() => {
      changes += 1;
    });
    test.server.setByOther('n2', { labels: { 'example.org/x': 'y' } });
    test.server.setByOther('n2', { annotations: { 'stickpin.io/serves': text } });
    test.server.addNode('n4', '10.0.0.4');
    test.server.removeNode('n3');
    await eventually(() => expect(names()).toEqual(['n1', 'n2', 'n4']));
    const endpoint = { host: '10.0.0.2', port: 9777 };
    expect(cluster.nodes()[1]).toEqual({ name: 'n2', endpoint, serves: bundles, facts: { labels: {} } });
    expect(changes).toBe(3);
  });

  it('reads Nodes whole while their labels are wanted, and follows what is Ready and cordoned', async () => {
    const facts = () => cluster.nodes().find(({ name }) => name === 'n2')?.facts;
    test.server.setByOther('n2', { labels: { zone: 'a', rack: 'b' } });
    cluster.need(true, false, ['zone']);
    await eventually(() => expect(facts()).toEqual({ labels: { zone: 'a' }, isReady: true, isCordoned: false }));
    expect(cluster.readLabels()).toEqual(['zone']);
    test.server.setReady('n2', false);
    test.server.cordon('n2', true);
    await eventually(() => expect(facts()).toEqual({ labels: { zone: 'a' }, isReady: false, isCordoned: true }));
    const lists = () => test.server.seen.filter(({ line }) => !/watch=true|nodes\/n1/.test(line)).length;
    const before = lists();
    for (const _ of [1, 2, 3]) cluster.need(true, false, ['zone']);
    test.server.setReady('n2', true);
    await eventually(() => expect(facts()).toMatchObject({ isReady: true }));
    expect(lists()).toBe(before);
    cluster.need(true);
    test.server.endWatches();
    await eventually(() => expect(facts()).toEqual({ labels: {} }));
    expect(cluster.readLabels()).toBeUndefined();
  });

  it('asks for nothing but its watch while nothing happens', async () => {
    const before = test.server.seen.length;
    expect(test.server.seen.map(({ line }) => line.replace(/\?.*/, ''))).toEqual([
      'GET /api/v1/nodes/n1',
      'GET /api/v1/nodes',
      'GET /api/v1/nodes',
    ]);
    test.server.setByOther('n2', { labels: { a: 'b' } });
    await eventually(() => expect(test.server.watches()).toBe(1));
    expect(test.server.seen).toHaveLength(before);
  });

  it('lists all nodes again when the changes since then are forgotten', async () => {
    test.server.fail((line) => (WATCHES.test(line) ? { code: 503 } : undefined));
    test.server.endWatches();
    await eventually(() => expect(test.server.watches()).toBe(0));
    test.server.removeNode('n3');
    test.server.compact();
    test.server.fail(undefined);
    await eventually(() => expect(names()).toEqual(['n1', 'n2']));
    await eventually(() => expect(test.server.watches()).toBe(1));
  });

  it.each<[string, Fault]>([
    ['403', { code: 403 }],
    ['HTML with 504', { code: 504, headers: { 'content-type': 'text/html' }, body: '<h1>Gateway Timeout</h1>' }],
    ['410', { code: 410 }],
  ])('lists less and less often while each watch is answered with %s, and says so once', async (_, fault) => {
    test.server.fail((line) => (WATCHES.test(line) ? fault : undefined));
    test.server.endWatches();
    const lists = requests(LISTS);
    await eventually(() => expect(levels()).toEqual(['warn']), 20_000);
    expect(log.lines[0]?.message).toMatch(/^The Kubernetes API does not tell changes of nodes: .*\d\d\d/);
    expect(cluster.trouble()).toBe(log.lines[0]?.message);
    // Pauses of 0.75, 1.5, 3, 6, 12 and 24 s: 30 s are over after the fewest lists.
    expect(requests(LISTS) - lists).toBeLessThanOrEqual(10);
    expect(names()).toEqual(['n1', 'n2', 'n3']);
    test.server.fail(undefined);
    await eventually(() => expect(test.server.watches()).toBe(1), 20_000);
    test.server.bookmark();
    await eventually(() => expect(cluster.trouble()).toBeUndefined());
    expect(levels()).toEqual(['warn', 'info']);
  });

  const cutLine = '{"type":"MODIFIED","object":{"met';
  // After the first watch, which ends without a fault.
  const [atEnds, atFaults] = [
    [1_500, 3_000, 6_000, 12_000],
    [750, 1_500, 3_000, 6_000, 12_000],
  ];
  it.each<[string, Fault, readonly number[]]>([
    ['an end at once', { code: 200, body: '' }, atEnds],
    ['an end within a line', { code: 200, body: cutLine }, atEnds],
    ['a cut within a line', { code: 200, body: cutLine, headers: { 'content-length': '999' } }, atFaults],
    ['a cut', { code: 0 }, atFaults],
    ['500', { code: 500 }, atFaults],
  ])('begins a watch again less and less often after %s, and misses nothing', async (_, fault, expected) => {
    pauses = [];
    test.server.fail((line) => (WATCHES.test(line) ? fault : undefined));
    test.server.endWatches();
    await eventually(() => expect(pauses.length).toBeGreaterThan(expected.length), 20_000);
    expect(pauses.slice(1, expected.length + 1)).toEqual(expected);
    test.server.addNode('n4', '10.0.0.4');
    test.server.fail(undefined);
    await eventually(() => expect(names()).toEqual(['n1', 'n2', 'n3', 'n4']), 20_000);
    await eventually(() => {
      test.server.bookmark();
      expect(cluster.trouble()).toBeUndefined();
    });
  });

  it('begins a watch again at once that a proxy ends now and then', async () => {
    pauses = [];
    for (let ends = 1; ends <= 3; ends += 1) {
      const sinceMs = performance.now();
      // 40 s of this clock.
      await eventually(() => expect(performance.now() - sinceMs).toBeGreaterThan(400));
      test.server.endWatches();
      await eventually(() => expect(pauses).toEqual(Array.from({ length: ends }, () => 750)));
      await eventually(() => expect(test.server.watches()).toBe(1));
    }
  });

  it.each<[string, Fault, readonly number[]]>([
    ['500', { code: 500 }, [750, 1_500, 3_000, 6_000, 12_000]],
    ['401', { code: 401 }, [750, 1_500, 3_000, 6_000, 12_000]],
    ['429', { code: 429, headers: { 'retry-after': '7' } }, [7_350, 7_350, 7_350, 7_350, 12_000]],
  ])('pauses as it must while all is answered with %s', async (_, fault, expected) => {
    pauses = [];
    test.server.fail(fault);
    test.server.endWatches();
    await eventually(() => expect(pauses.length).toBeGreaterThan(expected.length), 20_000);
    // The first one is about the watch that ended.
    expect(pauses.slice(1, expected.length + 1)).toEqual(expected);
  });

  it('pauses for as long as an ERROR event says', async () => {
    pauses = [];
    test.server.endWatches(statusOf(429, 'TooManyRequests', 'too many', { retryAfterSeconds: 20 }));
    await eventually(() => expect(test.server.watches()).toBe(1));
    expect(pauses).toEqual([21_000]);
  });

  it('reads a long list, which the server compresses', async () => {
    for (let at = 0; at < 1_000; at += 1) test.server.addNode(`more-${at}`);
    test.server.endWatches(statusOf(410, 'Expired', 'too old resource version'));
    await eventually(() => expect(test.server.seen.filter(({ isZipped }) => isZipped)).toHaveLength(1));
    await eventually(() => expect(names()).toHaveLength(1_003));
    expect(log.lines).toEqual([]);
  });

  it('keeps the other nodes while an API server that starts does not know the ClusterRole', async () => {
    const counts = new Set<number>();
    cluster.onChange(() => counts.add(names().length));
    let left = 2;
    test.server.fail((line) => {
      if (!LISTS.test(line) || left === 0) return undefined;
      left -= 1;
      return { code: 403 };
    });
    test.server.endWatches(statusOf(410, 'Expired', 'too old resource version'));
    await eventually(() => expect([left, cluster.trouble()]).toEqual([0, undefined]));
    expect([...counts]).toEqual([3]);
    expect(log.lines).toEqual([]);
  });

  it('knows its own Node only, and says so, once somebody has removed the ClusterRole', async () => {
    test.server.clearRules();
    test.server.endWatches(statusOf(410, 'Expired', 'too old resource version'));
    await eventually(() => expect(names()).toEqual(['n1']));
    await eventually(() => {
      test.server.endWatches();
      expect(log.lines.map(({ message }) => message)).toEqual([expect.stringMatching(/does not show other nodes/)]);
    });
  });

  it('takes an ERROR event with 410 in the same way, without a word', async () => {
    test.server.endWatches(statusOf(410, 'Expired', 'too old resource version'));
    await eventually(() => expect(requests(LISTS)).toBe(2));
    await eventually(() => expect(test.server.watches()).toBe(1));
    expect(log.lines).toEqual([]);
  });

  it('goes on where a bookmark was, so that nothing is listed again', async () => {
    test.server.compact();
    test.server.bookmark();
    test.server.addNode('n4', '10.0.0.4');
    await eventually(() => expect(names()).toHaveLength(4));
    test.server.endWatches();
    await eventually(() => expect(requests(WATCHES)).toBe(2));
    test.server.addNode('n5', '10.0.0.5');
    await eventually(() => expect(names()).toHaveLength(5));
    expect(requests(LISTS)).toBe(1);
  });

  it('does without bookmarks where the API server has none', async () => {
    const message = 'RequestWatchProgress is disabled';
    test.server.endWatches(statusOf(500, 'InternalError', message));
    await eventually(() => expect(requests(WATCHES)).toBe(2));
    const [first, second] = test.server.seen.filter(({ line }) => WATCHES.test(line));
    expect(first?.line).toContain('allowWatchBookmarks');
    expect(second?.line).not.toContain('allowWatchBookmarks');
  });

  it.each([
    [500, 'InternalError', 'etcdserver: no leader'],
    [500, 'InternalError', 'etcdserver: request timed out'],
    [429, 'TooManyRequests', 'storage is (re)initializing'],
  ])('asks for bookmarks again after an ERROR event of another kind: %i %s: %s', async (code, reason, message) => {
    test.server.endWatches(statusOf(code, reason, message));
    await eventually(() => expect(requests(WATCHES)).toBe(2));
    await eventually(() => expect(cluster.trouble()).toBeUndefined());
    expect(requests(/allowWatchBookmarks/)).toBe(2);
  });

  it('keeps what it knows while the API server is away, and says so once', async () => {
    await test.server.stop();
    await eventually(() => expect(cluster.trouble()).toMatch(/ECONNREFUSED.* stay known/));
    await eventually(() => expect(requests(WATCHES)).toBe(1));
    expect(names()).toEqual(['n1', 'n2', 'n3']);
    await eventually(() => expect(levels()).toEqual(['warn']), 10_000);
    await test.server.restart();
    await eventually(() => expect(cluster.trouble()).toBeUndefined());
    expect(levels()).toEqual(['warn', 'info']);
  });

  it('goes on with a new certificate, without a restart', async () => {
    const next = createAuthority(test.folder, 'kubernetes-2');
    test.server.trust(next.certificate);
    test.server.endWatches();
    await eventually(() => expect(cluster.trouble()).toMatch(/401/));
    await eventually(() => expect(levels()).toEqual(['warn']), 10_000);
    test.rotate('n1', next.node('n1'));
    await eventually(() => expect(cluster.trouble()).toBeUndefined());
    expect(levels()).toEqual(['warn', 'info']);
  });

  const html = { 'content-type': 'text/html' };
  it.each<[string, Fault, RegExp]>([
    ['401', { code: 401 }, /401/],
    ['403', { code: 403 }, /403: a fault of the test/],
    ['404', { code: 404 }, /^Kubernetes has no Node n1, which the kubelet of this node registers\. /],
    ['429', { code: 429, headers: { 'retry-after': '7' } }, /429/],
    ['HTML with 503', { code: 503, headers: html, body: '<h1>busy</h1>' }, /503/],
    ['HTML with 200', { code: 200, headers: html, body: '<h1>Login</h1>' }, /text\/html instead of JSON/],
    ['a redirect', { code: 302, headers: { ...html, location: '/login' } }, /302/],
    ['broken JSON', { code: 200, body: '{"kind":' }, /broken JSON/],
    ['another document', { code: 200, body: '{"items":1}' }, /that is no Node: metadata/],
  ])('tells %s once when it begins and once when it ends', async (_, fault, why) => {
    test.server.fail(fault);
    test.server.endWatches();
    await eventually(() => expect(cluster.trouble()).toMatch(why));
    const tries = test.server.seen.length;
    await eventually(() => expect(test.server.seen.length).toBeGreaterThan(tries + 2));
    // Half a minute of this clock: what is over sooner is not told.
    await eventually(() => expect(levels()).toEqual(['warn']), 10_000);
    expect(names()).toEqual(['n1', 'n2', 'n3']);
    test.server.fail(undefined);
    await eventually(() => expect(cluster.trouble()).toBeUndefined());
    expect(levels()).toEqual(['warn', 'info']);
    expect(log.lines[0]?.message).toMatch(/^(The Kubernetes API can't be read: |Kubernetes has no Node n1, )[^\n]+$/);
  });
});

describe.runIf(have('openssl'))('while nobody needs other nodes', () => {
  const HEARTBEAT = { labels: { 'example.org/beat': '1' } };
  beforeEach(async () => {
    await startWithRole();
    cluster.need(false);
    test.server.endWatches();
    await eventually(() => expect(cluster.isOld()).toBe(true));
    await eventually(() => expect(test.server.watches()).toBe(1));
  });
  const lastWatch = () => test.server.seen.filter(({ line }) => WATCHES.test(line)).at(-1)?.line;
  const ALL = /^GET \/api\/v1\/nodes\?resourceVersion=0$/;

  it('follows the own Node only, and still knows the others', async () => {
    expect(lastWatch()).toContain('fieldSelector=metadata.name%3Dn1');
    const before = test.server.seen.length;
    test.server.setByOther('n2', { annotations: { 'stickpin.io/serves': '{}' } });
    test.server.addNode('n4', '10.0.0.4');
    test.server.setByOther('n1', { annotations: { 'stickpin.io/x': 'y' } });
    await eventually(() => expect(cluster.ownFields()?.annotations).toEqual({ 'stickpin.io/x': 'y' }));
    const seen = () => test.server.seen.slice(before).map(({ line }) => line);
    await eventually(() => expect(seen()).toEqual(['GET /api/v1/nodes/n1']));
    expect(names()).toEqual(['n1', 'n2', 'n3']);
    expect(cluster.trouble()).toBeUndefined();
  });

  it('lists all now and then, and follows all again once they are needed', async () => {
    test.server.addNode('n4', '10.0.0.4');
    const lists = requests(ALL);
    // After 15 minutes of this clock. The server ends watches by its own one.
    await eventually(() => {
      test.server.endWatches();
      expect(names()).toEqual(['n1', 'n2', 'n3', 'n4']);
    }, 30_000);
    expect(requests(ALL)).toBe(lists + 1);
    test.server.removeNode('n4');
    cluster.need(true);
    await eventually(() => expect(cluster.isOld()).toBe(false));
    expect(names()).toEqual(['n1', 'n2', 'n3']);
    test.server.addNode('n5', '10.0.0.5');
    await eventually(() => expect(names()).toContain('n5'));
  });

  it('reads the Node of one that calls', async () => {
    test.server.addNode('n4', '10.0.0.4');
    const before = test.server.seen.length;
    for (const name of ['n4', 'gone', 'n1']) cluster.meet(name);
    await eventually(() => expect(names()).toContain('n4'));
    await eventually(() => expect(test.server.seen.slice(before)).toHaveLength(2));
    expect(names()).not.toContain('gone');
  });

  it('pauses as it must while the Nodes of those that call are refused', async () => {
    pauses = [];
    test.server.fail((line) =>
      /nodes\/n[45]/.test(line) ? { code: 429, headers: { 'retry-after': '7' } } : undefined,
    );
    for (const name of ['n4', 'n5']) cluster.meet(name);
    await eventually(() => expect(pauses).toEqual([7_350, 7_350]));
  });

  it('says that the API server is away, and reads all once it is back and they are needed', async () => {
    await test.server.stop();
    await eventually(() => expect(cluster.trouble()).toMatch(/ECONNREFUSED/));
    expect(cluster.isOld()).toBe(false);
    cluster.need(true, true);
    test.server.setByOther('n2', HEARTBEAT);
    test.server.addNode('n4', '10.0.0.4');
    await test.server.restart();
    await eventually(() => expect(names()).toContain('n4'));
    expect([cluster.trouble(), cluster.isOld()]).toEqual([undefined, false]);
  });
});

describe.runIf(have('openssl'))('without the ClusterRole', () => {
  it('follows the own Node only, and says what lacks until it is there', async () => {
    start();
    await eventually(() => expect(names()).toEqual(['n1']));
    expect(cluster.trouble()).toMatch(
      /cannot list resource "nodes".*kubectl apply -f \/usr\/share\/doc\/stickpin\/fleet/,
    );
    test.server.setByOther('n1', { annotations: { 'stickpin.io/x': 'y' } });
    await eventually(() => expect(cluster.ownFields()?.annotations).toEqual({ 'stickpin.io/x': 'y' }));
    const [watch] = test.server.seen.filter(({ line }) => WATCHES.test(line));
    // Somebody applies the file and looks whether it helps.
    expect(Number(/timeoutSeconds=(\d+)/.exec(watch?.line ?? '')?.[1])).toBeLessThanOrEqual(60);
    // Half a minute of this clock: a server that starts refuses everything for a moment.
    await eventually(() => {
      test.server.endWatches();
      expect(levels()).toEqual(['warn']);
    });
    test.server.apply(FLEET_YAML);
    await eventually(() => {
      test.server.endWatches();
      expect(names()).toEqual(['n1', 'n2', 'n3']);
    });
    expect(cluster.trouble()).toBeUndefined();
    expect(levels()).toEqual(['warn', 'info']);
  });

  it('never seems to be alone when the ClusterRole comes', async () => {
    start();
    await eventually(() => expect(names()).toEqual(['n1']));
    const seen: [string | undefined, number][] = [];
    cluster.onChange(() => seen.push([cluster.trouble(), names().length]));
    test.server.apply(FLEET_YAML);
    await eventually(() => {
      test.server.endWatches();
      expect(cluster.trouble()).toBeUndefined();
    });
    expect(seen.filter(([trouble]) => trouble === undefined).map(([, count]) => count)).toEqual([3]);
  });
});
