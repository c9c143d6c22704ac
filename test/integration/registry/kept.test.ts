import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Digest, digestFromHex, hexOf } from '../../../src/domain/model/digest.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { newBuffer } from '../../../src/platform/files/file-access.ts';
import type { LayerStore } from '../../../src/ports/blobs.ts';
import { createRegistry, type Registry } from '../../../src/registry/server.ts';
import { FileLayers } from '../../../src/store/files/layers/layer-store.ts';
import { seededBytes } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

/*
 * `retention.blobs = "kept"`: layers are written to the node's own disk while they stream to the
 * runtime.
 */

const MIB = 1024 * 1024;
/**
 * Larger than what the sockets of both sides hold together, so that the registry is in mid-blob
 * when the client leaves.
 */
const blob = seededBytes('kept', 48 * MIB);
const digest: Digest = digestFromHex(createHash('sha256').update(blob).digest('hex'));
const REPOSITORY = 'quay.example.com/coreos/etcd';

const folder = folderForEach();
let layers: LayerStore;
let registry: Registry;
let authority: string;
/** How often each MiB of the blob was read from the medium. */
let reads: number[];
/** What the medium gives. */
let onMedium: Buffer;
/** What the writing of a layer's last bytes waits for. */
let disk: Promise<void>;

beforeEach(async () => {
  layers = new FileLayers({ folder, minFreePercent: () => 0, log: createRecordingLog() });
  layers.want(new Set([digest]));
  reads = Array.from({ length: blob.length / MIB }, () => 0);
  onMedium = blob;
  disk = Promise.resolve();
  registry = createRegistry({
    source: {
      sizeOf: async (wanted) => (wanted === digest ? blob.length : undefined),
      async *read(_digest, startByte, signal, allocate = newBuffer) {
        for (let at = startByte; at < blob.length; ) {
          signal.throwIfAborted();
          // To the next full MiB, so that each read counts for one.
          const end = Math.min(blob.length, (Math.floor(at / MIB) + 1) * MIB);
          reads[Math.floor(at / MIB)] = (reads[Math.floor(at / MIB)] ?? 0) + 1;
          const chunk = allocate(end - at);
          onMedium.copy(chunk, 0, at, end);
          yield chunk;
          at = end;
        }
      },
      onChange: () => () => undefined,
    },
    layers: { begin: beginOnSlowDisk },
    clock: systemClock,
    graceMs: 1_000,
    token: undefined,
    log: createRecordingLog(),
    admit: async () => 'anybody',
  });
  registry.setCatalog(new Map([[REPOSITORY, { manifests: new Set(), images: new Map(), tags: new Map() }]]), {
    images: new Set(),
    layers: new Map([[digest, blob.length]]),
  });
  authority = await registry.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(async () => {
  await registry.close();
});

const beginOnSlowDisk: LayerStore['begin'] = async (wanted, sizeBytes, startByte, signal) => {
  const writer = await layers.begin(wanted, sizeBytes, startByte, signal);
  if (writer === undefined) return undefined;
  let handedOver = writer.startByte;
  const write = writer.write.bind(writer);
  return Object.assign(writer, {
    write: async (chunk: Buffer, inner: AbortSignal) => {
      handedOver += chunk.length;
      const written = write(chunk, inner);
      if (handedOver >= sizeBytes) await disk;
      await written;
    },
  });
};

async function open(headers: Record<string, string> = {}): Promise<IncomingMessage> {
  const [host, port] = authority.split(':');
  const asked = request({ host, port, path: `/v2/${REPOSITORY}/blobs/${digest}`, headers, agent: new Agent() });
  asked.end();
  const [response] = (await once(asked, 'response')) as [IncomingMessage];
  return response;
}

/** Takes so many bytes and breaks the connection. */
async function takeSome(sizeBytes: number, headers: Record<string, string> = {}): Promise<Buffer> {
  const response = await open(headers);
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response) {
    chunks.push(chunk as Buffer);
    length += (chunk as Buffer).length;
    if (length >= sizeBytes) break; // leaving the loop destroys the response, and with it the connection
  }
  return Buffer.concat(chunks);
}

async function takeAll(headers: Record<string, string> = {}): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of await open(headers)) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

const noTransferOpen = () => expect.poll(() => registry.meter.flow([digest]).open, { timeout: 60_000 }).toBe(0);
const keptBytes = () => readFileSync(join(folder, hexOf(digest)));

describe('registry: layers that are kept while they stream', () => {
  it('reads no byte twice from the medium for a client that aborts within a blob and continues with Range', async () => {
    const first = await takeSome(5 * MIB + 7);
    await noTransferOpen();
    expect(reads.filter((count) => count > 0).length).toBeLessThan(reads.length);
    const readFirst = reads.filter((count) => count > 0).length;
    expect(readFirst * MIB).toBeGreaterThan(first.length);
    const second = await takeSome(6 * MIB, { range: `bytes=${first.length}-` });
    await noTransferOpen();
    const third = await takeAll({ range: `bytes=${first.length + second.length}-` });
    await noTransferOpen();
    expect(Buffer.concat([first, second, third]).equals(blob)).toBe(true);
    expect(new Set(reads)).toEqual(new Set([1]));
    expect(readdirSync(folder)).toEqual([hexOf(digest)]);
    expect(keptBytes().equals(blob)).toBe(true);
  });

  it('reads no byte twice for a client that begins again from the first byte, or that wants only a part', async () => {
    const first = await takeSome(3 * MIB);
    await noTransferOpen();
    expect((await takeAll({ range: 'bytes=100-199' })).equals(blob.subarray(100, 200))).toBe(true);
    await noTransferOpen();
    expect((await takeAll()).equals(blob)).toBe(true);
    expect(first.equals(blob.subarray(0, first.length))).toBe(true);
    await noTransferOpen();
    expect(new Set(reads)).toEqual(new Set([1]));
    expect(keptBytes().equals(blob)).toBe(true);
  });

  it('keeps nothing from a medium with wrong bytes, marks the blob as damaged, and the next transfer starts again', async () => {
    onMedium = Buffer.from(blob);
    onMedium[3 * MIB] = (onMedium[3 * MIB] ?? 0) ^ 1;
    const first = await takeSome(5 * MIB);
    await noTransferOpen();
    expect(registry.meter.damaged().size).toBe(0);
    await takeAll({ range: `bytes=${first.length}-` });
    await noTransferOpen();
    expect([...registry.meter.damaged()]).toEqual([digest]);
    expect(readdirSync(folder)).toEqual([]);
    onMedium = blob;
    expect((await takeAll()).equals(blob)).toBe(true);
    await noTransferOpen();
    expect(registry.meter.damaged().size).toBe(0);
    expect(keptBytes().equals(blob)).toBe(true);
  });

  it('notes damage before the client has the last byte, even if the disk hangs', async () => {
    let goOn: () => void = () => undefined;
    disk = new Promise((resolve) => {
      goOn = resolve;
    });
    onMedium = Buffer.from(blob);
    onMedium[5] = (onMedium[5] ?? 0) ^ 1;
    try {
      expect((await takeSome(blob.length)).length).toBe(blob.length);
      expect(registry.meter.damaged()).toContain(digest);
    } finally {
      goOn();
    }
  });
});
