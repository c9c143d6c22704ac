import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { answerDaemon } from '../../../../src/fleet/peers/fleet-document.ts';
import type { KnownPeer } from '../../../../src/fleet/peers/peer.ts';
import { OffersClient, wasCut } from '../../../../src/fleet/wire/client.ts';
import { unixSocket, WireConnection } from '../../../../src/fleet/wire/connection.ts';
import { busyError, busyOf, parsePeerPath, wirePaths } from '../../../../src/fleet/wire/documents.ts';
import {
  answerSafely,
  createOffersHandler,
  relay,
  type SocketServer,
  serveSocket,
} from '../../../../src/fleet/wire/server.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { createMemoryOffers, type MemoryOffers } from '../../../support/fleet/memory-offers.ts';

const never = new AbortController().signal;
const bundleId = digestOf('a payload');
const offered = { bundleId, name: 'ocp', version: '4.13.7', sequence: 7, isWhole: true, revision: 'r1' };

const folder = folderForEach();
let socket: string;
let bundles: MemoryOffers;
let server: SocketServer;
let connection: WireConnection;
let client: OffersClient;

beforeEach(async () => {
  socket = join(folder, 'offers.sock');
  bundles = createMemoryOffers();
  bundles.bundles.set(bundleId, { offered, files: new Map([['index.json', Buffer.from('{"index":1}')]]) });
  server = await serveSocket(socket, createOffersHandler(bundles, systemClock, silentLog));
  connection = new WireConnection({ who: 'worker-2', connect: unixSocket(socket) });
  client = new OffersClient(connection);
});

afterEach(async () => {
  connection.close();
  await server.close();
});

async function all(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const chunk of chunks) parts.push(Buffer.from(chunk));
  return Buffer.concat(parts);
}

/** One plain request: status, headers and body. */
async function plain(path: string, headers: Record<string, string> = {}, method = 'GET') {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    httpRequest({ socketPath: socket, path, headers, method }, resolve).once('error', reject).end();
  });
  return { status: response.statusCode, headers: response.headers, body: (await all(response)).toString('utf8') };
}

describe('the wire form on a Unix socket', () => {
  it('is for the owner of the socket only, and leaves nothing behind', async () => {
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    const again = await serveSocket(join(folder, 'again.sock'), async () => undefined);
    await again.close();
    const third = await serveSocket(join(folder, 'again.sock'), async () => undefined);
    await third.close();
    expect(() => statSync(join(folder, 'again.sock'))).toThrow('ENOENT');
    expect(() => statSync(join(folder, 'again.sock.new'))).toThrow('ENOENT');
  });

  it('gives what is offered, and nothing while it stays the same', async () => {
    const first = await client.offers({}, never);
    expect(first?.document).toEqual({ version: 1, bundles: [offered] });
    expect(await client.offers({ etag: first?.etag }, never)).toBeUndefined();
  });

  it('waits for a change as long as the client prefers', async () => {
    const first = await client.offers({}, never);
    const look = bundles.offers;
    const looked = new Promise<void>((resolve) => {
      bundles.offers = (signal) => look(signal).finally(resolve);
    });
    const next = client.offers({ etag: first?.etag, waitMs: 30_000 }, never);
    await looked;
    bundles.bundles.clear();
    bundles.changed();
    expect((await next)?.document.bundles).toEqual([]);
    const last = await client.offers({}, never);
    expect(await client.offers({ etag: last?.etag, waitMs: 1 }, never)).toBeUndefined();
  });

  it('does not answer a change that changes nothing', async () => {
    const first = await client.offers({}, never);
    const waiting = client.offers({ etag: first?.etag, waitMs: 1_000 }, never);
    bundles.changed();
    expect(await waiting).toBeUndefined();
  });

  it('gives files, lists of blobs, and sizes', async () => {
    const digest = bundles.blob(Buffer.from('0123456789'));
    expect((await client.file(bundleId, 'index.json', never))?.toString()).toBe('{"index":1}');
    expect(await client.file(bundleId, 'contents.json', never)).toBeUndefined();
    expect(await client.file(digest, 'index.json', never)).toBeUndefined();
    expect(await client.blobs(bundleId, never)).toEqual(new Map([[digest, 10]]));
    expect(await client.blobs(digest, never)).toBeUndefined();
    expect(await client.sizeOf(digest, never)).toBe(10);
    expect(await client.sizeOf(bundleId, never)).toBeUndefined();
  });

  it('gives the bytes of a blob from any byte on', async () => {
    const bytes = randomBytes(300_000);
    const digest = bundles.blob(bytes);
    expect((await all(client.read(digest, 0, never))).equals(bytes)).toBe(true);
    expect((await all(client.read(digest, 299_999, never))).equals(bytes.subarray(299_999))).toBe(true);
    expect((await all(client.read(digest, 100_000, never))).equals(bytes.subarray(100_000))).toBe(true);
    const empty = bundles.blob(Buffer.alloc(0));
    expect(await all(client.read(empty, 0, never))).toHaveLength(0);
  });

  it('answers Range and If-Range as RFC 9110 says', async () => {
    const digest = bundles.blob(Buffer.from('0123456789'));
    const path = wirePaths.blob(digest);
    const part = await plain(path, { range: 'bytes=2-4' });
    expect([part.status, part.body, part.headers['content-range']]).toEqual([206, '234', 'bytes 2-4/10']);
    expect((await plain(path, { range: 'bytes=2-4', 'if-range': `"${digest}"` })).body).toBe('234');
    const other = await plain(path, { range: 'bytes=2-4', 'if-range': '"other"' });
    expect([other.status, other.body]).toEqual([200, '0123456789']);
    const outside = await plain(path, { range: 'bytes=10-' });
    expect([outside.status, outside.headers['content-range']]).toEqual([416, 'bytes */10']);
    expect((await plain(path, { 'if-none-match': `"${digest}"` })).status).toBe(304);
    const head = await plain(path, { range: 'bytes=2-4' }, 'HEAD');
    expect([head.status, head.headers['content-length'], head.body]).toEqual([200, '10', '']);
  });

  it.each(['POST', 'PUT', 'DELETE'])('refuses %s', async (method) => {
    const answer = await plain('/v1/offers', {}, method);
    expect([answer.status, answer.headers.allow]).toEqual([405, 'GET, HEAD']);
    expect(JSON.parse(answer.body)).toHaveProperty('error');
  });

  it.each([
    '/',
    '/v1',
    '/v1/blobs/sha256:0',
    '/v1/blobs/../../etc/passwd',
    `/v1/bundles/${bundleId}`,
    `/v1/bundles/${bundleId}/oci-layout`,
    `/v1/bundles/${bundleId}/..%2findex.json`,
    `/v1/blobs/${bundleId}/index.json`,
    '/v1/blobs/%',
    '/v1/fleet',
  ])('knows nothing of %s', async (path) => {
    expect((await plain(path)).status).toBe(404);
  });

  it.each([{ waitMs: 40_000 }, { mostMs: 600_000 }])(
    'tells a node that has to wait its place, and %j',
    async (time) => {
      const digest = bundles.blob(Buffer.from('0123456789'));
      const busy = { queue: { place: 2, waiting: 3, ...time }, retryMs: 5_000 };
      bundles.onRead = () => {
        throw busyError('worker-2', busy);
      };
      const error = await all(client.read(digest, 0, never)).catch((thrown: unknown) => thrown);
      expect(busyOf(error)).toEqual(busy);
      const answer = await plain(wirePaths.blob(digest));
      expect([answer.status, answer.headers['retry-after'], JSON.parse(answer.body)]).toEqual([503, '5', busy.queue]);
    },
  );

  it('asks again after 5 minutes at the latest, whatever a node wishes', async () => {
    const digest = bundles.blob(Buffer.from('0123456789'));
    bundles.onRead = () => {
      throw busyError('worker-2', { retryMs: 99_999_000 });
    };
    const error = await all(client.read(digest, 0, never)).catch((thrown: unknown) => thrown);
    expect(busyOf(error)).toEqual({ retryMs: 300_000 });
  });

  it('sends no byte of a blob that can not be read, and cuts one that breaks off', async () => {
    const digest = bundles.blob(randomBytes(200_000));
    bundles.onRead = () => {
      throw new AppError({ code: 'media/read', message: 'bad sector', disposition: 'retry' });
    };
    await expect(all(client.read(digest, 0, never))).rejects.toMatchObject({
      code: 'offers/failed',
      message: `worker-2 can't give ${wirePaths.blob(digest)}: bad sector`,
    });
    bundles.onRead = () => undefined;
    const read = bundles.read;
    bundles.read = async function* (...args) {
      for await (const chunk of read(...args)) yield chunk.subarray(0, 1_000);
    };
    await expect(all(client.read(digest, 0, never))).rejects.toMatchObject({ code: 'offers/unreachable' });
  });

  it('ends with the signal of its caller', async () => {
    const first = await client.offers({}, never);
    const stop = new AbortController();
    const waiting = client.offers({ etag: first?.etag, waitMs: 60_000 }, stop.signal);
    stop.abort(new Error('stopped'));
    await expect(waiting).rejects.toThrow('stopped');
  });

  it('survives that the server closes idle connections', async () => {
    await client.offers({}, never);
    await server.close();
    await expect(client.offers({}, never)).rejects.toMatchObject({ code: 'offers/unreachable' });
    server = await serveSocket(socket, createOffersHandler(bundles, systemClock, silentLog));
    expect((await client.offers({}, never))?.document.bundles).toEqual([offered]);
  });
});

describe('relay', () => {
  /** A relay to the server of the test, and its client. */
  async function startRelay(onError: (error: unknown, isCut: boolean) => void) {
    const relayed = await serveSocket(join(folder, 'peers.sock'), (request, response) =>
      answerSafely(request, response, silentLog, () =>
        relay(request, response, { connection, path: request.url ?? '' }).catch((error: unknown) => {
          onError(error, response.destroyed);
          throw error;
        }),
      ),
    );
    const through = new WireConnection({ who: 'relay', connect: unixSocket(join(folder, 'peers.sock')) });
    const close = async () => {
      through.close();
      await relayed.close();
    };
    return { far: new OffersClient(through), close };
  }

  it('tells a server that is away from one that can not read a blob', async () => {
    const digest = bundles.blob(randomBytes(1_000));
    bundles.onRead = () => {
      throw new AppError({ code: 'media/read', message: 'bad sector', disposition: 'retry' });
    };
    const { far, close } = await startRelay(() => undefined);
    await expect(all(far.read(digest, 0, never))).rejects.toMatchObject({ code: 'offers/failed' });
    await server.close();
    await expect(all(far.read(digest, 0, never))).rejects.toMatchObject({
      code: 'offers/unreachable',
      message: expect.stringContaining('with status 502: worker-2 does not answer'),
    });
    await close();
  });

  it('cuts an answer that was cut, so that nobody takes its server for one that is away', async () => {
    const digest = bundles.blob(randomBytes(200_000));
    bundles.read = async function* (_digest, startByte) {
      if (startByte === 0) yield Buffer.alloc(100_000);
      throw new AppError({ code: 'media/read', message: 'bad sector', disposition: 'retry' });
    };
    const errors: unknown[] = [];
    const { far, close } = await startRelay((error, isCut) => errors.push([wasCut(error), isCut]));
    const error = await all(far.read(digest, 0, never)).catch((thrown: unknown) => thrown);
    expect(wasCut(error)).toBe(true);
    await eventually(() => expect(errors).toEqual([[true, true]]));
    await expect(all(far.read(digest, 100_000, never))).rejects.toMatchObject({ code: 'offers/failed' });
    await close();
  });

  it('takes a daemon that ends its request for no failure of the peer, and a peer that ends its answer for one', async () => {
    const digest = bundles.blob(randomBytes(5_000_000));
    const failed = vi.fn();
    const peers = { find: () => ({ connection }) as KnownPeer, failed };
    const fleet = { current: async () => ({}), onChange: () => () => undefined };
    const answers = { fleet, refresh: async () => undefined, peers, clock: systemClock, log: silentLog };
    const ends: (() => void)[] = [];
    const front = await serveSocket(join(folder, 'peers.sock'), (request, response) => {
      // A write may fail before the response counts as closed.
      ends.push(() => {
        response.write = ((_chunk: Buffer, done: (error: Error) => void) => {
          done(new Error('write EPIPE'));
          return false;
        }) as typeof response.write;
      });
      return answerDaemon(request, response, answers);
    });
    const through = new WireConnection({ who: 'fleet', connect: unixSocket(join(folder, 'peers.sock')) });
    const far = new OffersClient(through, wirePaths.peer('worker-2'));
    try {
      const reading = far.read(digest, 0, never);
      await reading.next();
      ends[0]?.();
      await expect(all(reading)).rejects.toMatchObject({ code: 'offers/unreachable' });
      expect(failed).not.toHaveBeenCalled();
      await server.close();
      await expect(all(far.read(digest, 0, never))).rejects.toMatchObject({ code: 'offers/unreachable' });
      expect(failed).toHaveBeenCalledOnce();
    } finally {
      through.close();
      await front.close();
    }
  });

  it('passes requests on under the name of a peer, with ranges, waits and refusals', async () => {
    const bytes = randomBytes(200_000);
    const digest = bundles.blob(bytes);
    let passed = 0;
    const relayed = await serveSocket(join(folder, 'peers.sock'), async (request, response) => {
      const asked = parsePeerPath(request.url ?? '');
      expect(asked?.peer).toBe('worker 2');
      const onBytes = (count: number) => {
        passed += count;
      };
      await answerSafely(request, response, silentLog, () =>
        relay(request, response, { connection, path: asked?.path ?? '' }, onBytes),
      );
    });
    const through = new WireConnection({ who: 'relay', connect: unixSocket(join(folder, 'peers.sock')) });
    const far = new OffersClient(through, wirePaths.peer('worker 2'));
    try {
      expect((await all(far.read(digest, 150_000, never))).equals(bytes.subarray(150_000))).toBe(true);
      expect(passed).toBe(50_000);
      expect(await far.sizeOf(digest, never)).toBe(200_000);
      const first = await far.offers({}, never);
      expect(await far.offers({ etag: first?.etag, waitMs: 1 }, never)).toBeUndefined();
      bundles.onRead = () => {
        throw busyError('worker-2', { retryMs: 3_000 });
      };
      const error = await all(far.read(digest, 0, never)).catch((thrown: unknown) => thrown);
      expect(busyOf(error)).toEqual({ retryMs: 3_000 });
    } finally {
      through.close();
      await relayed.close();
    }
  });
});
