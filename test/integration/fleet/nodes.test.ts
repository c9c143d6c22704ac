import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { connect as connectPlain, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect } from 'node:tls';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Digest } from '../../../src/domain/model/digest.ts';
import { clusterNodeOf } from '../../../src/fleet/kubernetes/kubernetes-cluster.ts';
import { type OwnServes, servesAnnotation } from '../../../src/fleet/publish/own-report.ts';
import { serveNodes } from '../../../src/fleet/serve/node-port.ts';
import { type ClusterNode, WarnOnce } from '../../../src/fleet/trouble.ts';
import { wasCut } from '../../../src/fleet/wire/client.ts';
import { busyOf } from '../../../src/fleet/wire/documents.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { messageIds } from '../../../src/platform/message-ids.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { createAuthority, type TestAuthority } from '../../support/fleet/authority.ts';
import { layKubeletFiles } from '../../support/fleet/kubelet-files.ts';
import { startTestNode, type TestNode, type TestNodeOptions } from '../../support/fleet/test-node.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const signal = new AbortController().signal;
const MiB = 1024 * 1024;

describe.runIf(have('openssl'))('nodes that give bundles to each other', () => {
  const base = folderForAll();
  const started: TestNode[] = [];
  let cluster: TestAuthority;

  beforeAll(() => {
    cluster = createAuthority(join(base, 'ca'), 'kubernetes');
  });
  afterEach(async () => {
    for (const node of started.splice(0)) await node.stop();
  });

  async function start(name: string, options: Partial<TestNodeOptions> = {}): Promise<TestNode> {
    const kubelet = layKubeletFiles(join(base, `kubelet-${name}`), cluster.node(name), cluster).root;
    const fleet = { listen: '127.0.0.1:0', ...options.fleet };
    const node = await startTestNode({
      name,
      base,
      kubelet,
      ...options,
      fleet: { ...fleet, listen: await freeListen(fleet.listen) },
    });
    started.push(node);
    return node;
  }

  /** The setting knows no port 0. */
  async function freeListen(listen: string): Promise<string> {
    if (!listen.endsWith(':0')) return listen;
    const host = listen.slice(0, -':0'.length);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, host.replace(/[[\]]/g, ''), resolve));
    const address = server.address();
    await new Promise((resolve) => server.close(resolve));
    return `${host}:${typeof address === 'object' && address !== null ? address.port : 0}`;
  }

  const nodeAt = (node: TestNode, ...serves: Digest[]): ClusterNode => ({
    name: node.name,
    endpoint: { host: '127.0.0.1', port: node.port() },
    serves,
  });

  function offer(node: TestNode, bytes: Buffer, revision = '1'): { bundleId: Digest; blob: Digest } {
    const blob = node.offers.blob(bytes);
    const bundleId = digestOf(Buffer.from(`bundle of ${blob}`));
    const offered = { bundleId, name: 'ocp', version: '4.13.7', sequence: 7, isWhole: true, revision };
    node.offers.bundles.set(bundleId, { offered, files: new Map([['contents.json', Buffer.from('{}')]]) });
    node.offers.changed();
    return { bundleId, blob };
  }

  async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
    const all: Uint8Array[] = [];
    for await (const chunk of chunks) all.push(chunk);
    return Buffer.concat(all);
  }

  it('listen, announce and are asked on addresses of IPv6', async () => {
    const giver = await start('worker-1', { fleet: { listen: '[::1]:0' } });
    const bytes = randomBytes(MiB);
    const { bundleId, blob } = offer(giver, bytes);
    await eventually(() => expect(giver.fleet.serves()).toMatchObject({ address: '::1', bundles: [bundleId] }));
    const text = servesAnnotation(giver.fleet.serves() as OwnServes);
    // Loopback, which the test listens on, is refused.
    const annotations = { 'stickpin.io/serves': text.replace('::1', 'fd00::1') };
    const told = clusterNodeOf({ name: 'worker-1', annotations });
    expect(told.endpoint).toEqual({ host: 'fd00::1', port: giver.port() });
    const endpoint = { host: '::1', port: giver.port() };
    const taker = await start('worker-2', { nodes: [{ ...told, endpoint }], fleet: { listen: '[::1]:0' } });
    const { peers } = await taker.until(({ peers: now }) => now[0]?.bundles.length === 1);
    expect(peers[0]).toMatchObject({ name: 'worker-1', address: `[::1]:${giver.port()}` });
    expect((await bytesOf(taker.peer('worker-1').read(blob, 0, signal))).equals(bytes)).toBe(true);
  });

  it('call all others, which rest, for a new bundle', async () => {
    const one = await start('worker-1');
    const two = await start('worker-2', { nodes: [nodeAt(one)] });
    await two.until(({ peers }) => peers[0]?.trouble === undefined);
    one.show(nodeAt(two));
    await one.until(({ peers }) => peers.length === 1 && peers[0]?.trouble === undefined);
    // The cluster of the test announces nothing of it.
    const first = offer(one, randomBytes(100));
    await two.until(({ peers }) => peers[0]?.bundles.length === 1);
    const second = offer(one, randomBytes(100));
    const { peers } = await two.until((view) => view.peers[0]?.bundles.length === 2);
    expect(new Set(peers[0]?.bundles.map(({ bundleId }) => bundleId))).toEqual(
      new Set([first.bundleId, second.bundleId]),
    );
  });

  it('pass offers, files and parts of blobs on, from daemon to daemon', async () => {
    const one = await start('worker-1');
    const bytes = randomBytes(3 * MiB);
    const { bundleId, blob } = offer(one, bytes);
    const two = await start('worker-2', { nodes: [nodeAt(one, bundleId)] });
    const view = await two.until(({ peers }) => peers[0]?.bundles.length === 1);
    expect(view.peers).toMatchObject([{ name: 'worker-1', bundles: [{ bundleId, name: 'ocp', revision: '1' }] }]);
    expect(view.self).toBe('worker-2');
    const peer = two.peer('worker-1');
    expect(await peer.sizeOf(blob, signal)).toBe(bytes.length);
    expect(String(await peer.file(bundleId, 'contents.json', signal))).toBe('{}');
    expect(await peer.blobs(bundleId, signal)).toEqual(new Map([[blob, bytes.length]]));
    expect((await bytesOf(peer.read(blob, 0, signal))).equals(bytes)).toBe(true);
    expect((await bytesOf(peer.read(blob, MiB + 7, signal))).equals(bytes.subarray(MiB + 7))).toBe(true);
    expect(one.log.lines.filter(({ level }) => level === 'warn')).toEqual([]);
    await eventually(() => expect(one.statuses.join()).toContain('Gives blobs to worker-2'));
    expect(statSync(two.socket).mode & 0o777).toBe(0o600);
  });

  it('are not taken for away when they can not read a blob', async () => {
    const one = await start('worker-1');
    const { bundleId, blob } = offer(one, randomBytes(3 * MiB));
    one.offers.read = async function* (_digest, startByte) {
      if (startByte === 0) yield randomBytes(MiB);
      throw new AppError({ code: 'media/read', message: 'bad sector', disposition: 'retry' });
    };
    const two = await start('worker-2', { nodes: [nodeAt(one, bundleId)] });
    await two.until(({ peers }) => peers[0]?.bundles.length === 1);
    const peer = two.peer('worker-1');
    const cut = await bytesOf(peer.read(blob, 0, signal)).catch((error: unknown) => error);
    expect(wasCut(cut)).toBe(true);
    await expect(bytesOf(peer.read(blob, MiB, signal))).rejects.toMatchObject({ code: 'offers/failed' });
    expect(two.log.lines.filter(({ level }) => level === 'warn')).toEqual([]);
    await two.until(({ peers }) => peers[0]?.trouble === undefined && peers[0]?.bundles.length === 1);
  });

  it('tell when their offers change, and keep no connection while nothing does', async () => {
    const one = await start('worker-1');
    const two = await start('worker-2', { nodes: [nodeAt(one)] });
    await two.until(({ peers }) => peers[0]?.trouble === undefined);
    const { bundleId } = offer(one, randomBytes(100));
    two.show(nodeAt(one, bundleId));
    await two.until(({ peers }) => peers[0]?.bundles[0]?.bundleId === bundleId);
    let asked = 0;
    const count = one.offers.offers;
    one.offers.offers = async (...args) => {
      asked += 1;
      return count(...args);
    };
    expect(asked).toBe(0);
    const open = readFileSync('/proc/net/tcp', 'utf8');
    const port = one.port().toString(16).toUpperCase().padStart(4, '0');
    expect(open).toContain(`:${port}`);
    await eventually(() => {
      const rows = readFileSync('/proc/net/tcp', 'utf8').split('\n');
      expect(rows.filter((row) => row.includes(`:${port}`) && / 01 /.test(row))).toEqual([]);
    }, 20_000);
  });

  it.each([
    ['while they need something', undefined, 'held'],
    ['while the others do', 'held', undefined],
  ] as const)('hear at once what changes at others %s, without an API server', async (_when, there, here) => {
    const release = { name: 'ocp', version: '4.13.7', bundle: 'a'.repeat(16) };
    const statusOf = (phase: 'held' | undefined) =>
      phase === undefined ? {} : { status: { version: 1 as const, releases: [{ ...release, phase }] } };
    const one = await start('worker-1', statusOf(there));
    const two = await start('worker-2', { fleet: { peers: [`127.0.0.1:${one.port()}`] }, ...statusOf(here) });
    await two.until(({ peers }) => peers[0]?.trouble === undefined);
    let previous = '';
    const beganAt = performance.now();
    for (const revision of ['1', '2', '3', '4']) {
      const { bundleId } = offer(one, randomBytes(100), revision);
      expect(bundleId).not.toBe(previous);
      previous = bundleId;
      await two.until(({ peers }) => peers[0]?.bundles.some((bundle) => bundle.bundleId === bundleId) === true);
    }
    // Asked without waiting, it would be asked after 5, 15, 30 and 30 s.
    expect(performance.now() - beganAt).toBeLessThan(40_000);
  });

  it('find each other without an API server: by settings, and by those that they knew last', async () => {
    const one = await start('worker-1', { apiTrouble: 'it does not answer' });
    offer(one, randomBytes(10));
    const peers = [`127.0.0.1:${one.port()}`];
    const two = await start('worker-2', { apiTrouble: 'it does not answer', fleet: { peers } });
    const view = await two.until(({ peers }) => peers[0]?.bundles.length === 1);
    expect(view.peers[0]?.name).toBe('worker-1');
    expect(view.apiTrouble).toBe('it does not answer');
    const file = join(two.stateDir, 'peers.json');
    await eventually(() => expect(readFileSync(file, 'utf8')).toContain('worker-1'));
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it('count an address that never answered as a peer, and not as a node', async () => {
    const peers = ['127.0.0.1:1'];
    const two = await start('worker-2', { apiTrouble: 'it does not answer', fleet: { peers } });
    const view = await two.until(({ peers: [peer] }) => peer?.trouble?.includes('refuses connections') === true);
    expect(view.nodes.map(({ name }) => name)).toEqual(['worker-2']);
    expect(view.peers.map(({ name }) => name)).toEqual(peers);
    expect(
      await two
        .peer('127.0.0.1:1')
        .sizeOf(digestOf(Buffer.from('x')), signal)
        .catch((error: unknown) => error),
    ).toBeInstanceOf(Error);
  });

  it('take a node that refuses them for one that lives', async () => {
    const one = await start('worker-1');
    const foreign = createAuthority(join(base, 'ca'), 'kubernetes').node('worker-2');
    const kubelet = layKubeletFiles(join(base, 'kubelet-refused'), foreign, cluster).root;
    const two = await start('worker-2', { kubelet, nodes: [nodeAt(one)] });
    const view = await two.until(({ peers }) => peers[0]?.trouble?.includes('may refuse the certificate') === true);
    expect(view.nodes).toMatchObject([{ name: 'worker-1', seenAt: expect.any(Number) }, { name: 'worker-2' }]);
  });

  it('serve so many at once, keep places in the queue, and give a free slot to the next', async () => {
    // At this rate the blob takes minutes: the first node is served until it gives up.
    const one = await start('worker-1', { fleet: { max_clients: 1, rate: 64 * 1024 } });
    const { blob } = offer(one, randomBytes(16 * MiB));
    const others = [];
    for (const name of ['worker-2', 'worker-3', 'worker-4']) {
      const node = await start(name, { nodes: [nodeAt(one)] });
      await node.until(({ peers }) => peers[0]?.trouble === undefined);
      others.push(node.peer('worker-1'));
    }
    const [first, second, third] = others;
    if (first === undefined || second === undefined || third === undefined) throw new Error('no peers');
    const gaveUp = new AbortController();
    const running = bytesOf(first.read(blob, 0, gaveUp.signal)).catch((error: unknown) => error);
    await eventually(() => expect(one.statuses.join()).toContain('worker-2'));
    const place = async (client: typeof second) => {
      try {
        for await (const _chunk of client.read(blob, 0, signal)) break;
        return undefined;
      } catch (error) {
        return busyOf(error)?.queue;
      }
    };
    expect(await place(second)).toMatchObject({ place: 1, waiting: 1 });
    // Documents are given to everybody: a bundle can be judged while its layers are waited for.
    const { blob: document } = offer(one, randomBytes(1_000), '2');
    expect(await bytesOf(third.read(document, 0, signal))).toHaveLength(1_000);
    expect(await place(third)).toMatchObject({ place: 2, waiting: 2 });
    expect(await place(second)).toMatchObject({ place: 1, waiting: 2 });
    await eventually(() => expect(one.statuses.join()).toContain('2 nodes wait'));
    gaveUp.abort();
    expect(await running).toBeInstanceOf(Error);
    await eventually(
      async () => {
        await place(second).then((queue) => expect(queue).toBeUndefined());
      },
      20_000,
      500,
    );
    expect(await place(third)).toMatchObject({ place: 1, waiting: 1 });
  });

  it('stay below the rate, for all together', async () => {
    const rate = 2 * MiB;
    const one = await start('worker-1', { fleet: { rate } });
    const { blob } = offer(one, randomBytes(3 * MiB));
    const two = await start('worker-2', { nodes: [nodeAt(one)] });
    await two.until(({ peers }) => peers[0]?.trouble === undefined);
    const peer = two.peer('worker-1');
    const begun = performance.now();
    await Promise.all([bytesOf(peer.read(blob, 0, signal)), bytesOf(peer.read(blob, 0, signal))]);
    const seconds = (performance.now() - begun) / 1_000;
    expect(seconds).toBeGreaterThan(2.5);
  });

  it('stay below the rate with documents too', async () => {
    const one = await start('worker-1', { fleet: { rate: 2 * MiB } });
    const { bundleId } = offer(one, Buffer.from('layer'));
    one.offers.bundles.get(bundleId)?.files.set('contents.json', randomBytes(1.5 * MiB));
    const two = await start('worker-2', { nodes: [nodeAt(one)] });
    await two.until(({ peers }) => peers[0]?.trouble === undefined);
    const peer = two.peer('worker-1');
    const begun = performance.now();
    const read = () => peer.file(bundleId, 'contents.json', signal, 2 * MiB);
    await Promise.all([read(), read(), read(), read()]);
    expect((performance.now() - begun) / 1_000).toBeGreaterThan(2.5);
  });

  it('answer only GET and HEAD, and only paths of the wire form', async () => {
    const one = await start('worker-1');
    const stranger = cluster.node('worker-9');
    const ask = (text: string) =>
      new Promise<string>((resolve, reject) => {
        const socket = connect({
          host: '127.0.0.1',
          port: one.port(),
          rejectUnauthorized: false,
          cert: stranger.certificate,
          key: stranger.key,
        });
        let seen = '';
        socket.on('data', (chunk) => {
          seen += chunk;
          if (seen.includes('\r\n\r\n')) socket.end();
        });
        socket.on('close', () => resolve(seen));
        socket.on('error', reject);
        socket.write(text);
      });
    const head = 'Host: x\r\n\r\n';
    expect(await ask(`POST /v1/offers HTTP/1.1\r\nContent-Length: 0\r\n${head}`)).toMatch(
      /^HTTP\/1.1 405 .*allow: GET, HEAD/is,
    );
    expect(await ask(`GET /v1/fleet HTTP/1.1\r\n${head}`)).toMatch(/^HTTP\/1.1 404/);
    expect(await ask(`GET /v1/peers/worker-2/v1/offers HTTP/1.1\r\n${head}`)).toMatch(/^HTTP\/1.1 404/);
    expect(await ask(`GET /v1/bundles/../../etc/passwd HTTP/1.1\r\n${head}`)).toMatch(/^HTTP\/1.1 404/);
    expect(await ask(`GET /v1/offers HTTP/1.1\r\nX: ${'y'.repeat(20_000)}\r\n${head}`)).toMatch(/^HTTP\/1.1 431/);
    expect(await ask(`GET /v1/offers HTTP/1.1\r\n${head}`)).toContain('"name":"worker-1"');
  });

  it('close connections that are too many, and those that say nothing', async () => {
    const one = await start('worker-1');
    const silent: Socket[] = [];
    let closed = 0;
    for (let count = 0; count < 20; count += 1) {
      const socket = connectPlain(one.port(), '127.0.0.1');
      socket.on('error', () => undefined);
      socket.on('close', () => {
        closed += 1;
      });
      silent.push(socket);
    }
    // Eight handshakes of one address may wait; these end by their own limit of 10 s.
    await eventually(() => expect(closed).toBeGreaterThanOrEqual(12), 5_000);
    await eventually(() => expect(closed).toBe(20), 30_000);
    expect(one.log.lines.filter(({ level }) => level === 'warn').length).toBeLessThan(3);
  });

  /** A connection of a node that is only a client. */
  async function call(node: TestNode, name: string, localAddress = '127.0.0.1') {
    const { certificate, key } = cluster.node(name);
    const socket = connect({
      socket: connectPlain({ host: '127.0.0.1', port: node.port(), localAddress }),
      cert: certificate,
      key,
      rejectUnauthorized: false,
    });
    let text = '';
    let isClosed = false;
    socket.on('data', (bytes: Buffer) => {
      text += bytes.toString('latin1');
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      isClosed = true;
    });
    await once(socket, 'secureConnect');
    const statuses = () => [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => status);
    return { socket, statuses, isClosed: () => isClosed };
  }

  it('stay reachable while strangers hold handshakes open, for nodes that are known and for new ones', async () => {
    const endpoint = { host: '127.0.0.1', port: 9 };
    const one = await start('worker-1', { nodes: [{ name: 'worker-2', serves: [], endpoint }] });
    const silent = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11].flatMap((host) =>
      Array.from({ length: 8 }, () =>
        connectPlain({ port: one.port(), host: '127.0.0.1', localAddress: `127.0.0.${host}` }),
      ),
    );
    for (const socket of silent) socket.on('error', () => undefined);
    await Promise.all(silent.map((socket) => once(socket, 'connect')));
    const get = 'GET /v1/offers HTTP/1.1\r\nHost: x\r\n\r\n';
    for (const from of ['127.0.0.1', '127.0.0.200']) {
      const { socket, statuses } = await call(one, 'worker-2', from);
      socket.write(get);
      await eventually(() => expect(statuses()).toEqual(['200']));
      socket.destroy();
    }
    const lines = one.log.lines.filter(({ message }) => message.includes('have not proved who they are'));
    expect(lines.map(({ level }) => level)).toEqual(['warn']);
    for (const socket of silent) socket.destroy();
  });

  it('answer at most 16 requests of a node at once, also on one connection', async () => {
    const one = await start('worker-1');
    const { blob } = offer(one, Buffer.from('small'));
    const { socket, statuses } = await call(one, 'worker-2');
    const get = `GET /v1/blobs/${blob} HTTP/1.1\r\nHost: x\r\n\r\n`;
    socket.write(get.repeat(20));
    await eventually(() => expect(statuses()).toHaveLength(20));
    expect(statuses()).toEqual([...Array(16).fill('200'), ...Array(4).fill('503')]);
    socket.write(get);
    await eventually(() => expect(statuses().at(20)).toBe('200'));
    socket.destroy();
  });

  it('end a connection with its next request once its authority is no longer trusted', async () => {
    const files = layKubeletFiles(join(base, 'kubelet-renewed'), cluster.node('worker-1'), cluster);
    const one = await start('worker-1', { kubelet: files.root });
    const { blob } = offer(one, Buffer.from('small'));
    const { socket, statuses, isClosed } = await call(one, 'worker-2');
    const get = `GET /v1/blobs/${blob} HTTP/1.1\r\nHost: x\r\n\r\n`;
    socket.write(get);
    await eventually(() => expect(statuses()).toEqual(['200']));
    const renewed = createAuthority(join(base, 'ca-renewed'), 'kubernetes');
    files.rotate(renewed.node('worker-1'));
    files.trust(renewed);
    let sent = 1;
    await eventually(() => {
      // One at a time: a busy server refuses more than 16.
      if (!isClosed() && statuses().length === sent) {
        socket.write(get);
        sent += 1;
      }
      expect(isClosed()).toBe(true);
    });
    expect(new Set(statuses())).toEqual(new Set(['200']));
  });

  const bad: readonly [what: string, answer: (socket: Socket) => void, line: RegExp][] = [
    [
      'endless headers',
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const more = setInterval(() => socket.write(`X-Filler: ${'a'.repeat(1_000)}\r\n`), 1);
        socket.once('close', () => clearInterval(more));
      },
      /can't be read as an answer/,
    ],
    ['HTML', (socket) => void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>'), /can't be used/],
    [
      '10 GiB',
      (socket) => void socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${10 * 1024 * MiB}\r\n\r\n{`),
      /more than 1048576 bytes/,
    ],
    ['no HTTP', (socket) => void socket.end('SSH-2.0-OpenSSH_9.2\r\n'), /can't be read as an answer/],
    ['nothing', (socket) => socket.destroy(), /does not answer/],
    [
      'another protocol',
      (socket) =>
        void socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
      /switches to another protocol/,
    ],
  ];

  it.each(bad)('cut a peer off that answers with %s, with one line', async (_what, answer, line) => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('data', () => answer(socket));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const fleet = { listen: await freeListen('127.0.0.1:0'), peers: [`127.0.0.1:${port}`] };
    const node = await startTestNode({ name: 'worker-2', base, fleet });
    started.push(node);
    const view = await node.until(
      ({ peers }) => peers[0]?.trouble !== undefined && peers[0].trouble !== 'it was not asked yet',
      40_000,
    );
    expect(view.peers[0]?.trouble).toMatch(line);
    expect(node.log.kinds()).toContain('fleetStarted');
    const lines = node.log.lines.filter(({ fields }) => fields.messageId === messageIds.peerAway);
    expect(lines.map(({ message }) => message)).toEqual([expect.stringMatching(line)]);
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });

  const statusOf = (host: string, port: number) =>
    new Promise((resolve) => {
      request({ host, port, path: '/v1/offers', agent: false }, (response) => {
        response.resume();
        resolve(response.statusCode);
      }).end();
    });

  it('give plain answers with auth = "none"', async () => {
    const node = await startTestNode({ name: 'worker-1', base, fleet: { listen: await freeListen('127.0.0.1:0') } });
    started.push(node);
    expect(await statusOf('127.0.0.1', node.port())).toBe(200);
  });

  it('count an address of IPv4 as such where they listen on all addresses', async () => {
    const callers: string[] = [];
    const compared: string[] = [];
    const server = await serveNodes({
      endpoint: { host: '::', port: 0 },
      identity: undefined,
      isPeerAddress: (address) => compared.push(address) > 0,
      answer: async (caller, _request, response) => {
        callers.push(caller);
        response.end();
      },
      clock: systemClock,
      warnings: new WarnOnce(createRecordingLog(), systemClock),
    });
    for (const host of ['127.0.0.1', '::1']) expect(await statusOf(host, server.endpoint.port)).toBe(200);
    expect(callers).toEqual(['127.0.0.1', '::1']);
    expect(compared).toEqual(['127.0.0.1', '::1']);
    await server.close();
  });
});
