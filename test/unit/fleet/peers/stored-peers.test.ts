import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { PeerStore, RememberedPeers, type StoredPeer } from '../../../../src/fleet/peers/stored-peers.ts';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { fixedCluster } from '../../../support/kubernetes/fixed-cluster.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';

const folder = folderForEach();
let path: string;
beforeEach(() => {
  path = join(folder, 'peers.json');
});

/** Node `a`. */
async function scene(stored: readonly StoredPeer[] = []) {
  const cluster = fixedCluster('a');
  const saved: (readonly StoredPeer[])[] = [];
  const disk = { isFull: false };
  const store = {
    load: async () => stored,
    save: async (peers: readonly StoredPeer[]) => {
      saved.push(peers);
      return !disk.isFull;
    },
  };
  let nowMs = 0;
  const clock = { monotonic: () => nowMs };
  const known = new RememberedPeers(store, cluster, clock);
  const later = () => {
    nowMs += 60_000;
  };
  await known.load(NEVER_ABORTED);
  const answers = (name: string, host: string) => {
    const target = { name, endpoint: { host, port: 9777 }, names: [name], isAnnounced: false, serves: [] };
    return known.answered({ target, node: undefined }, NEVER_ABORTED);
  };
  return {
    cluster,
    known,
    saved,
    disk,
    answers,
    later,
    follow: () => known.followCluster(cluster.nodes(), NEVER_ABORTED),
  };
}

const node = (name: string, host?: string) => ({
  name,
  serves: [],
  ...(host !== undefined && { endpoint: { host, port: 9777 } }),
});
const B = { name: 'b', address: '10.0.0.2:9777' };

it('keeps all nodes that the Kubernetes API names, with their addresses where it has them', async () => {
  const { cluster, saved, follow } = await scene([B, { name: 'gone', address: '10.0.0.8:9777' }]);
  cluster.set([node('a', '10.0.0.1'), node('b'), node('c', '10.0.0.3'), node('d')]);
  await follow();
  await follow();
  expect(saved).toEqual([[B, { name: 'c', address: '10.0.0.3:9777' }, { name: 'd' }]]);
});

it('keeps what was known while the API does not show all nodes', async () => {
  const { cluster, saved, follow, known } = await scene([B]);
  await follow();
  cluster.set([node('a')], 'it does not answer');
  await follow();
  expect([saved, known.list()]).toEqual([[], [B]]);
});

it('keeps all nodes of a list of keys, also those that never answered, and forgets the others', async () => {
  const { cluster, saved, follow, known } = await scene([B, { name: 'gone', address: '10.0.0.8:9777' }]);
  Object.assign(cluster, { isListed: true });
  cluster.set([node('a'), node('b'), node('c')], 'It is not used.');
  await follow();
  expect(saved).toEqual([[B, { name: 'c' }]]);
  Object.assign(cluster, { isListed: false });
  cluster.set([node('a')], 'It is not used.');
  await follow();
  expect([saved.length, known.list()]).toEqual([1, [B, { name: 'c' }]]);
});

it('keeps where a node answers that the API does not show, and writes nothing twice', async () => {
  const { cluster, saved, follow, answers, later } = await scene();
  await answers('b', '10.0.0.2');
  await answers('b', '10.0.0.2');
  expect(saved).toEqual([[B]]);
  later();
  cluster.set([node('a'), node('b'), node('c', '10.0.0.3')]);
  await follow();
  for (const [name, host] of [
    ['b', '10.0.0.2'],
    ['c', '10.0.0.9'],
    ['gone', '10.0.0.8'],
  ] as const) {
    await answers(name, host);
    await follow();
  }
  expect(saved).toEqual([[B], [B, { name: 'c', address: '10.0.0.3:9777' }]]);
});

it('writes again what could not be written, a minute later and at its end', async () => {
  const { saved, disk, follow, answers, later, known } = await scene();
  disk.isFull = true;
  await answers('b', '10.0.0.2');
  await follow();
  expect(saved).toEqual([[B]]);
  later();
  await follow();
  await known.close();
  disk.isFull = false;
  await known.close();
  await known.close();
  expect(saved).toEqual([[B], [B], [B], [B]]);
});

it('writes at its end what an abort kept from being written', async () => {
  const { cluster, known, saved } = await scene();
  cluster.set([node('b', '10.0.0.2')]);
  await expect(known.followCluster(cluster.nodes(), AbortSignal.abort())).rejects.toThrow();
  await known.close();
  expect(saved).toEqual([[B]]);
});

it('reads no address that each machine has from the stored peers, and keeps their names', async () => {
  const local = [
    '127.0.0.1:1',
    '169.254.1.1:1',
    '0.0.0.0:1',
    '[::1]:1',
    '[fe80::1]:1',
    '[::]:1',
    '[::ffff:127.0.0.1]:1',
  ];
  const peers = [...local, '10.0.0.4:9777', '[fd00::4]:9777'].map((address, at) => ({ name: `worker-${at}`, address }));
  writeFileSync(path, JSON.stringify({ version: 1, peers }));
  const loaded = await new PeerStore(path, createRecordingLog()).load(NEVER_ABORTED);
  expect(loaded.map(({ name }) => name)).toEqual(peers.map(({ name }) => name));
  expect(loaded.flatMap(({ address }) => address ?? [])).toEqual(['10.0.0.4:9777', '[fd00::4]:9777']);
});

it('begins with no peers when the file is damaged, and logs that in one line', async () => {
  for (const text of ['', '{"version":1,"peers":[{"name":"a","address":"nowhere"}]}', '\0\0']) {
    writeFileSync(path, text);
    const log = createRecordingLog();
    expect(await new PeerStore(path, log).load(NEVER_ABORTED)).toEqual([]);
    expect(log.lines.map(({ message }) => message)).toEqual([expect.stringContaining(`${path} can't be used`)]);
  }
});

it('sets a folder in the place of the file aside, so that the file is made again', async () => {
  mkdirSync(path);
  const store = new PeerStore(path, createRecordingLog());
  expect(await store.load(NEVER_ABORTED)).toEqual([]);
  await store.save([{ name: 'worker-1' }], NEVER_ABORTED);
  expect(await store.load(NEVER_ABORTED)).toEqual([{ name: 'worker-1' }]);
});

it('writes at most once a minute, however often a node moves, and the rest at the end', async () => {
  const { cluster, saved, follow, later, known } = await scene();
  const move = async (host: string) => {
    cluster.set([node('a'), node('b', host)]);
    await follow();
  };
  for (let at = 1; at <= 250; at += 1) await move(`10.0.1.${at}`);
  expect(saved).toHaveLength(1);
  expect(known.list()).toEqual([{ name: 'b', address: '10.0.1.250:9777' }]);
  later();
  await follow();
  expect(saved.at(-1)).toEqual(known.list());
  await move('10.0.2.1');
  expect(saved).toHaveLength(2);
  await known.close();
  expect(saved.at(-1)).toEqual([{ name: 'b', address: '10.0.2.1:9777' }]);
  await known.close();
  expect(saved).toHaveLength(3);
});

it('writes at once that a Node was deleted, so that nobody waits for it after a restart without the API', async () => {
  const { cluster, saved, follow, known, answers } = await scene();
  cluster.set([node('a'), node('b', '10.0.0.2'), node('c', '10.0.0.3')]);
  await follow();
  cluster.set([node('a'), node('b', '10.0.0.2')]);
  await follow();
  expect(saved.at(-1)).toEqual([B]);
  cluster.set([node('a'), node('b', '10.0.0.2')], 'it does not answer');
  await follow();
  await answers('b', '10.0.0.2');
  expect([saved.at(-1), known.list()]).toEqual([[B], [B]]);
});

it('writes each new node at once, as before a power cut, but not again when two nodes take turns', async () => {
  const { saved, answers } = await scene([B]);
  await answers('c', '10.0.0.3');
  await answers('d', '10.0.0.4');
  expect(saved.map((peers) => peers.map(({ name }) => name))).toEqual([
    ['b', 'c'],
    ['b', 'c', 'd'],
  ]);
  for (let times = 0; times < 50; times += 1) {
    await answers('c', '10.0.0.4');
    await answers('d', '10.0.0.4');
  }
  expect(saved).toHaveLength(2);
});
