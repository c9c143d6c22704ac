import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Arriving, Catalog } from '../../../src/domain/decide/catalog.ts';
import { type Digest, digestFromHex } from '../../../src/domain/model/digest.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import { type Clock, systemClock } from '../../../src/platform/clock.ts';
import { newBuffer } from '../../../src/platform/files/file-access.ts';
import type { ChangingBlobSource } from '../../../src/ports/blobs.ts';
import { PeerUsers } from '../../../src/registry/peer-users.ts';
import { createRegistry, type Registry } from '../../../src/registry/server.ts';
import { eventually } from '../../support/eventually.ts';
import { createPublicNode } from '../../support/public-node.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const REPOSITORY = 'quay.example.com/coreos/etcd';
const hashOf = (bytes: Buffer): Digest => digestFromHex(createHash('sha256').update(bytes).digest('hex'));

const blob = randomBytes(300_000);
const manifest = Buffer.from(
  JSON.stringify({
    schemaVersion: 2,
    mediaType: 'application/vnd.docker.distribution.manifest.v2+json',
    config: { mediaType: 'application/vnd.docker.container.image.v1+json', digest: hashOf(blob), size: blob.length },
    layers: [],
  }),
);
const bareIndex = Buffer.from(JSON.stringify({ schemaVersion: 2, manifests: [] }));

/** Blobs that can be taken away and brought back, and whose reading can be watched. */
interface Shelf extends ChangingBlobSource {
  readonly blobs: Map<Digest, Buffer>;
  readonly reads: { digest: Digest; startByte: number }[];
  /** Bytes given away so far. */
  given: number;
  chunkBytes: number;
  /** What chunks were read into. */
  readonly buffers: Set<ArrayBufferLike>;
  /** Throws this instead of going on, once this byte is reached. */
  breakAt: { byte: number; error: unknown } | undefined;
  change(): void;
}

function createShelf(): Shelf {
  const listeners = new Set<() => void>();
  const shelf: Shelf = {
    blobs: new Map([blob, manifest, bareIndex].map((bytes) => [hashOf(bytes), bytes])),
    reads: [],
    given: 0,
    chunkBytes: 64 * 1024,
    buffers: new Set(),
    breakAt: undefined,
    change: () => {
      for (const listener of listeners) listener();
    },
    onChange: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    sizeOf: async (digest) => shelf.blobs.get(digest)?.length,
    read: async function* (digest, startByte, signal, allocate = newBuffer) {
      shelf.reads.push({ digest, startByte });
      const bytes = shelf.blobs.get(digest);
      if (bytes === undefined) throw gone();
      for (let position = startByte; position < bytes.length; ) {
        signal.throwIfAborted();
        const end = Math.min(bytes.length, position + shelf.chunkBytes, shelf.breakAt?.byte ?? bytes.length);
        if (end <= position && shelf.breakAt !== undefined) throw shelf.breakAt.error;
        shelf.given += end - position;
        const chunk = allocate(end - position);
        shelf.buffers.add(chunk.buffer);
        bytes.copy(chunk, 0, position, end);
        yield chunk;
        position = end;
      }
    },
  };
  return shelf;
}

const gone = () => new AppError({ code: 'media/gone', message: 'sdb1 was removed', disposition: 'wait' });

let shelf: Shelf;
let registry: Registry;
let log: RecordingLog;
let authority: string;
let catalog: Catalog;
let admissions: number;
let admit: (socket: Socket) => Promise<string | undefined>;
const peers = new PeerUsers({ clock: systemClock });
/** Admits as the daemon does. */
const admitUid = (allowed: number) => async (socket: Socket) =>
  (await peers.uidOf(socket)) === allowed ? `uid ${allowed}` : undefined;

async function start(graceMs = 10_000): Promise<void> {
  registry = createRegistry({
    source: shelf,
    clock: systemClock,
    graceMs,
    token: TOKEN,
    log,
    admit: (socket) => {
      admissions += 1;
      return admit(socket);
    },
    isOpen: async (socket) => (await peers.uidOf(socket)) !== undefined,
  });
  const entry = {
    manifests: new Set([hashOf(manifest), hashOf(bareIndex)]),
    images: new Map([hashOf(manifest), hashOf(bareIndex)].map((digest) => [digest, `${REPOSITORY}@${digest}`])),
    tags: new Map([['v3.5', hashOf(manifest)]]),
  };
  catalog = new Map([
    [REPOSITORY, entry],
    ['localhost:5000/app', { manifests: new Set(), images: new Map(), tags: new Map() }],
  ]);
  registry.setCatalog(catalog, arriving());
  authority = await registry.listen({ host: '127.0.0.1', port: 0 });
}

/** The images that the runtime is to pull, and the blob, which is waited for. */
const arriving = (...images: readonly Buffer[]): Arriving => ({
  images: new Set((images.length === 0 ? [manifest, bareIndex] : images).map(hashOf)),
  layers: new Map([[hashOf(blob), blob.length]]),
});

beforeEach(() => {
  shelf = createShelf();
  log = createRecordingLog();
  admissions = 0;
  admit = async () => 'anybody';
});
afterEach(() => registry.close());

interface Ask {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly agent?: Agent;
}

async function open(path: string, { method = 'GET', headers = {}, agent }: Ask = {}): Promise<IncomingMessage> {
  const [host, port] = authority.split(':');
  const asked = request({ host, port, path, method, headers, agent: agent ?? new Agent() });
  asked.setHeader('user-agent', 'cri-o/1.36.3');
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return response;
}

async function get(
  path: string,
  ask: Ask = {},
): Promise<{ status: number; headers: IncomingHttpHeaders; body: Buffer }> {
  const response = await open(path, ask);
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) };
}

/** Sends `bytes` over a connection of its own, whose sending half stays open. */
function ask(bytes: string): Socket {
  const [host = '', port] = authority.split(':');
  const client = connect({ host, port: Number(port), allowHalfOpen: true });
  client.on('error', () => undefined);
  client.write(bytes);
  return client;
}

const at = (rest: string) => `/v2/${TOKEN}/${REPOSITORY}/${rest}`;
const blobPath = at(`blobs/${hashOf(blob)}`);
const errorOf = (body: Buffer) => JSON.parse(body.toString()).errors[0].code;

describe('registry: pull, after the OCI distribution specification', () => {
  beforeEach(() => start());

  it('answers the ping', async () => {
    const { status, headers, body } = await get('/v2/');
    expect(status).toBe(200);
    expect(headers['docker-distribution-api-version']).toBe('registry/2.0');
    expect(body.toString()).toBe('{}');
  });

  it.each([
    ['by digest', `manifests/${hashOf(manifest)}`, manifest, 'application/vnd.docker.distribution.manifest.v2+json'],
    ['by tag', 'manifests/v3.5', manifest, 'application/vnd.docker.distribution.manifest.v2+json'],
    ['as a blob', `blobs/${hashOf(manifest)}`, manifest, 'application/vnd.docker.distribution.manifest.v2+json'],
    ['without a mediaType', `manifests/${hashOf(bareIndex)}`, bareIndex, 'application/vnd.oci.image.index.v1+json'],
  ])('gives a manifest %s with its type, size and digest', async (_how, path, bytes, type) => {
    const { status, headers, body } = await get(at(path));
    expect(status).toBe(200);
    expect(body.equals(bytes)).toBe(true);
    expect(headers).toMatchObject({
      'content-type': type,
      'content-length': String(bytes.length),
      'docker-content-digest': hashOf(bytes),
    });
    const head = await get(at(path), { method: 'HEAD' });
    expect(head.body).toHaveLength(0);
    expect(head.headers).toMatchObject({
      'content-length': String(bytes.length),
      'docker-content-digest': hashOf(bytes),
    });
  });

  it('refuses a manifest that has another digest', async () => {
    shelf.blobs.set(hashOf(manifest), Buffer.from(JSON.stringify({ mediaType: 'application/x-forged' })));
    const { headers } = await get(at(`manifests/${hashOf(manifest)}`));
    expect(headers['content-type']).toBe('application/vnd.oci.image.manifest.v1+json');
  });

  it('reads no blob for a client that left before it was admitted', async () => {
    let letIn: () => void = () => undefined;
    admit = () =>
      new Promise((resolve) => {
        letIn = () => resolve('anybody');
      });
    const client = ask(`GET ${blobPath} HTTP/1.1\r\nhost: ${authority}\r\n\r\n`);
    await eventually(() => expect(admissions).toBe(1));
    client.resetAndDestroy();
    letIn();
    admit = async () => 'anybody';
    await get('/v2/'); // by now the first request was worked on
    expect(shelf.given).toBe(0);
  });

  it('gives a whole blob, also when containerd names the registry behind it', async () => {
    const { status, headers, body } = await get(`${blobPath}?ns=quay.example.com`);
    expect(status).toBe(200);
    expect(body.equals(blob)).toBe(true);
    expect(headers).toMatchObject({
      'accept-ranges': 'bytes',
      'content-length': '300000',
      'docker-content-digest': hashOf(blob),
    });
  });

  it.each([
    ['bytes=100000-', 206, 100_000, 299_999],
    ['bytes=5-9', 206, 5, 9],
    ['bytes=-7', 206, 299_993, 299_999],
    ['bytes=299999-999999', 206, 299_999, 299_999],
  ])('gives the part %s', async (range, status, first, last) => {
    const answer = await get(blobPath, { headers: { range } });
    expect(answer.status).toBe(status);
    expect(answer.headers['content-range']).toBe(`bytes ${first}-${last}/300000`);
    expect(answer.headers['content-length']).toBe(String(last - first + 1));
    expect(answer.body.equals(blob.subarray(first, last + 1))).toBe(true);
  });

  it('takes the unit of a range in any case, and a target with scheme and host', async () => {
    const answer = await get(`http://${authority}${blobPath}?ns=quay.example.com`, { headers: { range: 'BYTES=0-4' } });
    expect([answer.status, answer.headers['content-range']]).toEqual([206, 'bytes 0-4/300000']);
    expect(answer.body.equals(blob.subarray(0, 5))).toBe(true);
  });

  it('sends everything to a client that has closed its sending half', async () => {
    const large = randomBytes(24 * 1024 ** 2);
    shelf.blobs.set(hashOf(large), large);
    const client = ask(`GET ${at(`blobs/${hashOf(large)}`)} HTTP/1.1\r\nhost: ${authority}\r\n\r\n`);
    client.end();
    const answer = await buffer(client);
    expect(answer.toString('latin1', 0, 15)).toBe('HTTP/1.1 200 OK');
    expect(answer.subarray(answer.indexOf('\r\n\r\n') + 4).equals(large)).toBe(true);
  });

  it('continues for such a client when the medium is back, and does not wait for one that is gone', async () => {
    shelf.breakAt = { byte: 100_000, error: gone() };
    const request = `GET ${blobPath} HTTP/1.1\r\nhost: ${authority}\r\n\r\n`;
    const stays = ask(request);
    stays.end();
    const leaves = ask(request);
    leaves.end();
    leaves.on('data', () => undefined);
    await eventually(() => expect(registry.meter.waiting()).toBe(2));
    leaves.destroy();
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    shelf.breakAt = undefined;
    shelf.change();
    const answer = await buffer(stays);
    expect(answer.subarray(answer.indexOf('\r\n\r\n') + 4).equals(blob)).toBe(true);
  });

  it('refuses a part that is not there, and ignores what it does not understand', async () => {
    const beyond = await get(blobPath, { headers: { range: 'bytes=300000-' } });
    expect([beyond.status, beyond.headers['content-range']]).toEqual([416, 'bytes */300000']);
    expect((await get(blobPath, { headers: { range: 'bytes=9-5' } })).status).toBe(200);
    expect((await get(blobPath, { headers: { range: 'bytes=0-1,5-6' } })).body).toHaveLength(300_000);
  });

  it('answers HEAD for a blob without sending it, for any range', async () => {
    const { status, headers, body } = await get(blobPath, { method: 'HEAD', headers: { range: 'bytes=5-9' } });
    expect([status, headers['content-length'], body.length]).toEqual([200, '300000', 0]);
    expect(shelf.reads).toEqual([]);
  });

  describe('before its first catalog, as after a restart of the daemon', () => {
    const manifestPath = at(`manifests/${hashOf(manifest)}`);
    let early: Registry;
    let address: string;
    const startEarly = async (clock: Clock) => {
      const options = { source: shelf, graceMs: 0, token: TOKEN, log, admit };
      early = createRegistry({ ...options, clock, waitsForOffers: true });
      address = await early.listen({ host: '127.0.0.1', port: 0 });
    };
    afterEach(() => early.close());

    it('lets requests wait for the catalog', async () => {
      const waits = new EventEmitter();
      const sleep: Clock['sleep'] = (ms, signal) => {
        waits.emit('begun');
        return systemClock.sleep(ms, signal);
      };
      await startEarly({ ...systemClock, sleep });
      const begun = once(waits, 'begun');
      const answer = fetch(`http://${address}${manifestPath}`);
      await begun;
      early.setCatalog(catalog, arriving());
      expect((await answer).status).toBe(200);
    });

    it('lets them wait for a limited time only', async () => {
      const waits: number[] = [];
      const sleep: Clock['sleep'] = async (ms) => void waits.push(ms);
      await startEarly({ ...systemClock, sleep });
      expect((await fetch(`http://${address}${manifestPath}`)).status).toBe(404);
      expect(waits).toEqual([20_000]);
    });
  });

  it.each([
    ['an unknown blob', at(`blobs/${hashOf(Buffer.from('none'))}`), 'BLOB_UNKNOWN'],
    ['an unknown manifest', at(`manifests/${hashOf(Buffer.from('none'))}`), 'MANIFEST_UNKNOWN'],
    ['a tag that is not offered', at('manifests/latest'), 'MANIFEST_UNKNOWN'],
    ['a repository that is not mirrored', `/v2/${TOKEN}/quay.example.com/other/blobs/${hashOf(blob)}`, 'NAME_UNKNOWN'],
    ['a wrong token', blobPath.replace('0123', '3210'), 'NAME_UNKNOWN'],
    ['no token', `/v2/${REPOSITORY}/blobs/${hashOf(blob)}`, 'NAME_UNKNOWN'],
    ['the catalog', '/v2/_catalog', 'NAME_UNKNOWN'],
    [
      'referrers in a repository that is not mirrored',
      `/v2/${TOKEN}/quay.example.com/other/referrers/${hashOf(manifest)}`,
      'NAME_UNKNOWN',
    ],
  ])('answers 404 to %s', async (_what, path, code) => {
    const { status, headers, body } = await get(path);
    expect([status, headers['content-type'], errorOf(body)]).toEqual([404, 'application/json', code]);
  });

  it('answers an empty index for referrers, which it does not know', async () => {
    const { status, headers, body } = await get(at(`referrers/${hashOf(manifest)}`));
    expect([status, headers['content-type']]).toEqual([200, 'application/vnd.oci.image.index.v1+json']);
    expect(JSON.parse(body.toString())).toEqual({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.index.v1+json',
      manifests: [],
    });
  });

  it('answers 404 to a manifest without all its blobs, by digest and by tag, until they are available (docs/runtime-facts.md, fact 12)', async () => {
    registry.setCatalog(catalog, arriving(bareIndex));
    shelf.blobs.delete(hashOf(blob));
    for (const reference of [hashOf(manifest), 'v3.5']) {
      const { status, body } = await get(at(`manifests/${reference}`));
      expect([status, errorOf(body)]).toEqual([404, 'MANIFEST_UNKNOWN']);
    }
    expect((await get(at(`manifests/${hashOf(bareIndex)}`))).status).toBe(200);
    registry.setCatalog(catalog, arriving());
    expect((await get(at(`manifests/${hashOf(manifest)}`))).status).toBe(200);
  });

  it.each([
    ['a way out', at('blobs/..%2f..%2f..%2fetc%2fpasswd'), 'DIGEST_INVALID'],
    ['a broken escape', at('blobs/%zz'), 'DIGEST_INVALID'],
    ['a name that can not be', at('A/tags/list'), 'NAME_INVALID'],
    ['referrers of what is no digest', at('referrers/sha256:00'), 'DIGEST_INVALID'],
  ])('answers 400 to %s', async (_what, path, code) => {
    const { status, body } = await get(path);
    expect([status, errorOf(body)]).toEqual([400, code]);
  });

  it('knows a repository with a port by the path that its mirror has', async () => {
    const missing = await get(`/v2/${TOKEN}/localhost__5000/app/manifests/latest`);
    expect(errorOf(missing.body)).toBe('MANIFEST_UNKNOWN');
  });

  it.each(['POST', 'PUT', 'PATCH', 'DELETE'])('is read-only: %s', async (method) => {
    const { status, body } = await get(at('blobs/uploads/'), { method });
    expect([status, errorOf(body)]).toEqual([405, 'UNSUPPORTED']);
  });

  it('serves what is in the newest catalog only', async () => {
    registry.setCatalog(new Map());
    expect((await get(blobPath)).status).toBe(404);
  });

  it('counts a request as answered only when it is known whether it asks for something unknown', async () => {
    const digest = hashOf(Buffer.from('a probe'));
    const { meter } = registry;
    const counts = () => [meter.unknownRequests(REPOSITORY).count, meter.manifestRequests(REPOSITORY, digest)];
    const sent = () => meter.manifestsSent(REPOSITORY, digest);
    let whileLooking: number[] = [];
    shelf.sizeOf = async () => {
      whileLooking = counts();
      return undefined;
    };
    expect((await get(at(`manifests/${digest}`))).status).toBe(404);
    expect([whileLooking, counts()]).toEqual([
      [0, 0],
      [1, 1],
    ]);
    expect(sent()).toBe(0);
  });

  it('counts what it sent and how often manifests were asked for', async () => {
    await get(at(`manifests/${hashOf(manifest)}`));
    await get(at('manifests/latest'));
    await get(blobPath, { headers: { range: 'bytes=0-99' } });
    await get(blobPath, { headers: { range: 'bytes=50-59' } });
    expect(registry.meter.totalBytes()).toBe(110);
    expect(registry.meter.sentBytes().get(hashOf(blob))).toBe(100);
    expect(registry.meter.manifestRequests(REPOSITORY, hashOf(manifest))).toBe(1);
    expect(registry.meter.manifestsSent(REPOSITORY, hashOf(manifest))).toBe(1);
    expect(registry.meter.manifestRequests(REPOSITORY, 'latest')).toBe(1);
    expect(registry.meter.manifestsSent(REPOSITORY, 'latest')).toBe(0);
    await get(at(`manifests/${hashOf(manifest)}`), { headers: { 'if-none-match': `"${hashOf(manifest)}"` } });
    expect(registry.meter.manifestsSent(REPOSITORY, hashOf(manifest))).toBe(2);
    expect(registry.meter.manifestRequests(REPOSITORY, hashOf(bareIndex))).toBe(0);
    expect(registry.meter.manifestRequests('quay.example.com/other', hashOf(manifest))).toBe(0);
  });

  it('survives bytes that are not a request, and a request without end', async () => {
    const [host, port] = authority.split(':');
    for (const rubbish of [
      '\x16\x03\x01 hello\r\n\r\n',
      `GET /${'a'.repeat(100_000)} HTTP/1.1\r\n\r\n`,
      'GET /v2/ HTTP/1.1\r\n\r\n',
    ]) {
      const socket = connect(Number(port), host);
      socket.on('error', () => undefined);
      socket.end(rubbish);
      expect(await text(socket).catch(() => 'reset')).not.toMatch(/^HTTP\/1\.1 200/);
    }
    expect((await get('/v2/')).status).toBe(200);
  });
});

describe('registry: admission', () => {
  it('asks once for each connection', async () => {
    await start();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let count = 0; count < 3; count += 1) expect((await get('/v2/', { agent })).status).toBe(200);
    expect(admissions).toBe(1);
    agent.destroy();
    await get('/v2/');
    expect(admissions).toBe(2);
  });

  it('refuses every request on a connection that is not admitted', async () => {
    admit = async () => undefined;
    await start();
    for (const path of ['/v2/', blobPath]) {
      const { status, body } = await get(path);
      expect([status, errorOf(body)]).toEqual([403, 'DENIED']);
    }
    expect(shelf.reads).toEqual([]);
  });

  it('finds the uid of this process at the other end, over IPv4 and over a socket for both families', async () => {
    const uid = process.getuid?.() ?? 0;
    admit = admitUid(uid);
    await start();
    expect((await get('/v2/')).status).toBe(200);
    admit = admitUid(uid + 1);
    expect((await get('/v2/')).status).toBe(403);
    await registry.close();
    admit = admitUid(uid);
    await start();
    await registry.close();
    authority = await registry.listen({ host: '::', port: 0 });
    authority = `127.0.0.1:${authority.split(':').at(-1)}`;
    expect((await get('/v2/')).status).toBe(200);
  });
});

describe('registry: admission beside many connections', () => {
  it('finds the uid in a table that the kernel gives in many pieces', async () => {
    const others = createServer().listen(0, '127.0.0.1');
    await once(others, 'listening');
    const { port } = others.address() as AddressInfo;
    const accepted = new Set<Socket>();
    others.on('connection', (socket) => accepted.add(socket));
    const sockets = Array.from({ length: 600 }, () => connect(port, '127.0.0.1'));
    try {
      await Promise.all(sockets.map((socket) => once(socket, 'connect')));
      admit = admitUid(process.getuid?.() ?? 0);
      await start();
      for (let count = 0; count < 20; count += 1) expect((await get('/v2/')).status).toBe(200);
    } finally {
      for (const socket of [...sockets, ...accepted]) socket.destroy();
      others.close();
    }
  });
});

describe.runIf(have('root'))('registry: admission of other users', () => {
  it('refuses a running process of another uid', async () => {
    admit = admitUid(0);
    await start();
    const script = `require('node:http').get('http://${authority}/v2/', { agent: false }, (r) => process.stdout.write(String(r.statusCode)))`;
    using node = createPublicNode();
    const ask = async (uid: number) => text(spawn(node.path, ['-e', script], { uid, cwd: '/' }).stdout);
    expect(await ask(65_534)).toBe('403');
    expect(await ask(0)).toBe('200');
  });
});

describe('registry: transfers', () => {
  it('reads no faster than the client takes', async () => {
    const large = randomBytes(48 * 1024 ** 2);
    shelf.blobs.set(hashOf(large), large);
    await start();
    const response = await open(at(`blobs/${hashOf(large)}`));
    response.pause();
    let before = -1;
    await eventually(
      () => {
        const now = shelf.given;
        const isStill = now === before;
        before = now;
        expect(isStill).toBe(true);
      },
      60_000,
      200,
    );
    expect(shelf.given).toBeLessThan(20 * 1024 ** 2);
    const hash = createHash('sha256');
    for await (const chunk of response) hash.update(chunk as Buffer);
    expect(digestFromHex(hash.digest('hex'))).toBe(hashOf(large));
  });

  it.each([4 * 1024, 1024 ** 2])(
    'reads chunks of %i bytes into one buffer, each when the last was sent',
    async (chunkBytes) => {
      const large = randomBytes(24 * 1024 ** 2);
      shelf.blobs.set(hashOf(large), large);
      shelf.chunkBytes = chunkBytes;
      await start();
      const response = await open(at(`blobs/${hashOf(large)}`));
      response.pause();
      await eventually(() => expect(registry.meter.flow([hashOf(large)]).awaitingRuntime).toBe(1));
      const hash = createHash('sha256');
      for await (const chunk of response) hash.update(chunk as Buffer);
      expect(digestFromHex(hash.digest('hex'))).toBe(hashOf(large));
      expect(shelf.buffers.size).toBe(1);
    },
  );

  it('holds a transfer while its medium is unplugged and continues from the same byte', async () => {
    await start();
    shelf.breakAt = { byte: 100_000, error: gone() };
    const answer = get(blobPath, { headers: { range: 'bytes=1000-' } });
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    shelf.blobs.delete(hashOf(blob));
    shelf.change();
    shelf.breakAt = undefined;
    shelf.blobs.set(hashOf(blob), blob);
    shelf.change();
    const { status, body } = await answer;
    expect(status).toBe(206);
    expect(body.equals(blob.subarray(1000))).toBe(true);
    expect(shelf.reads.map(({ startByte }) => startByte)).toEqual([1000, 100_000]);
    expect(shelf.given).toBe(299_000);
    expect(registry.meter.totalBytes()).toBe(299_000);
    expect(registry.meter.waiting()).toBe(0);
  });

  it('notices the return of the medium even while it checks for it', async () => {
    await start();
    shelf.breakAt = { byte: 100_000, error: gone() };
    const answer = get(blobPath);
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    shelf.blobs.delete(hashOf(blob));
    const { sizeOf } = shelf;
    shelf.sizeOf = async (digest, signal) => {
      const before = await sizeOf(digest, signal);
      shelf.sizeOf = sizeOf;
      shelf.breakAt = undefined;
      shelf.blobs.set(hashOf(blob), blob);
      shelf.change();
      return before;
    };
    shelf.change();
    const since = performance.now();
    expect((await answer).body.equals(blob)).toBe(true);
    expect(performance.now() - since).toBeLessThan(4_000);
  });

  it('continues after a short read error while the medium stays', async () => {
    await start();
    const error = new AppError({ code: 'media/read', message: 'EIO', disposition: 'retry' });
    shelf.breakAt = { byte: 70_000, error };
    const answer = get(blobPath);
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    shelf.breakAt = undefined;
    expect((await answer).body.equals(blob)).toBe(true);
    expect(shelf.given).toBe(300_000);
  });

  it('treats a blob that ends too early as broken, and continues when it is complete', async () => {
    await start();
    const { read } = shelf;
    shelf.read = async function* (digest, startByte, signal) {
      if (startByte > 0) yield* read(digest, startByte, signal);
      else yield blob.subarray(0, 5);
    };
    const answer = get(blobPath);
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    shelf.change();
    expect((await answer).body.equals(blob)).toBe(true);
  });

  it('closes the connection when the grace time is over, and logs it', async () => {
    await start(300);
    shelf.breakAt = { byte: 100_000, error: gone() };
    const response = await open(blobPath);
    const chunks: Buffer[] = [];
    const ended = (async () => {
      for await (const chunk of response) chunks.push(chunk as Buffer);
    })();
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    shelf.blobs.delete(hashOf(blob));
    await expect(ended).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(Buffer.concat(chunks).equals(blob.subarray(0, 100_000))).toBe(true);
    expect(registry.meter.waiting()).toBe(0);
    expect(log.lines).toMatchObject([{ level: 'warn', message: expect.stringMatching(/broke off: sdb1 was removed/) }]);
  });

  it('breaks it at once when waiting can not help', async () => {
    await start();
    shelf.breakAt = { byte: 10, error: new AppError({ code: 'media/x', message: 'bad', disposition: 'reject' }) };
    await expect(get(blobPath)).rejects.toThrow();
    expect(registry.meter.waiting()).toBe(0);
  });

  it('stops waiting when the client disconnects, without a log line', async () => {
    await start();
    shelf.breakAt = { byte: 100_000, error: gone() };
    const response = await open(blobPath);
    response.resume();
    response.on('error', () => undefined);
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    response.destroy();
    await eventually(() => expect(registry.meter.waiting()).toBe(0));
    expect(log.lines).toEqual([]);
  });

  it('serves others while one waits', async () => {
    await start();
    shelf.breakAt = { byte: 100_000, error: gone() };
    const waiting = get(blobPath);
    waiting.catch(() => undefined);
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    expect((await get(at('manifests/v3.5'))).status).toBe(200);
  });

  it('sends an empty blob', async () => {
    const empty = Buffer.alloc(0);
    shelf.blobs.set(hashOf(empty), empty);
    await start();
    const { status, headers, body } = await get(at(`blobs/${hashOf(empty)}`));
    expect([status, headers['content-length'], body.length]).toEqual([200, '0', 0]);
  });
});

describe('registry: listening', () => {
  it('names the address that it can not listen on, and what to do', async () => {
    await start();
    const second = createRegistry({ source: shelf, clock: systemClock, graceMs: 0, token: TOKEN, log, admit });
    const [host = '', port] = authority.split(':');
    await expect(second.listen({ host, port: Number(port) })).rejects.toMatchObject({
      code: 'registry/listen',
      disposition: 'fatal',
      message: expect.stringMatching(new RegExp(`can't listen on ${authority}: .*EADDRINUSE.*registry\\.listen`)),
    });
    await second.close();
  });

  it('drops every connection when it closes, also one that waits', async () => {
    await start();
    shelf.breakAt = { byte: 100_000, error: gone() };
    const waiting = get(blobPath);
    const broken = expect(waiting).rejects.toThrow();
    await eventually(() => expect(registry.meter.waiting()).toBe(1));
    await registry.close();
    await broken;
    await expect(get('/v2/')).rejects.toThrow(/ECONNREFUSED/);
    await eventually(() => expect(registry.meter.waiting()).toBe(0));
  });
});
