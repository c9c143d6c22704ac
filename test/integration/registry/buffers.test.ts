import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { newBuffer } from '../../../src/platform/files/file-access.ts';
import type { BlobSource } from '../../../src/ports/blobs.ts';
import { CheckedSource } from '../../../src/registry/checked-source.ts';
import { createRegistry } from '../../../src/registry/server.ts';
import { eventually } from '../../support/eventually.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

const MIB = 1024 * 1024;
const BLOB = Buffer.alloc(32 * MIB, 'stickpin');
const CLIENTS = 64;

it('reads for 64 clients that take nothing into few buffers, and sends a whole blob', async () => {
  /** The buffers of each read that has begun. */
  const reads: Set<ArrayBufferLike>[] = [];
  const source: BlobSource = {
    sizeOf: async () => BLOB.length,
    async *read(_digest, startByte, _signal, allocate = newBuffer) {
      const buffers = new Set<ArrayBufferLike>();
      reads.push(buffers);
      for (let at = startByte; at < BLOB.length; ) {
        const chunk = allocate(Math.min(MIB, BLOB.length - at));
        buffers.add(chunk.buffer);
        at += BLOB.copy(chunk, 0, at);
        yield chunk;
      }
    },
  };
  const life = new AbortController();
  const registry = createRegistry({
    source: new CheckedSource(source, async () => undefined, life.signal),
    clock: systemClock,
    graceMs: 0,
    token: undefined,
    log: createRecordingLog(),
    admit: async () => 'anybody',
  });
  registry.setOffers(() => ({ tags: new Map(), layers: new Map() }));
  const [host, port] = (await registry.listen({ host: '127.0.0.1', port: 0 })).split(':');
  const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY });
  try {
    const responses = await Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        const asked = get({ host, port, agent, path: `/v2/any/blobs/${digestOf(BLOB)}` });
        const [response] = (await once(asked, 'response')) as [IncomingMessage];
        return response;
      }),
    );
    await eventually(() => expect(registry.meter.flow([digestOf(BLOB)]).awaitingRuntime).toBe(CLIENTS));
    const sizes = reads.flatMap((buffers) => [...buffers].map(({ byteLength }) => byteLength));
    expect(reads).toHaveLength(CLIENTS);
    // 8 of 1 MiB, 8 of half of it, 16 of a quarter, and 32 of an eighth, as they come one by one.
    expect(sizes.reduce((sum, bytes) => sum + bytes, 0)).toBeLessThanOrEqual(20 * MIB);
    const [last] = responses.splice(-1);
    for (const response of responses) response.destroy();
    const chunks: Buffer[] = [];
    for await (const chunk of last ?? []) chunks.push(chunk as Buffer);
    expect(digestOf(Buffer.concat(chunks))).toBe(digestOf(BLOB));
  } finally {
    life.abort();
    agent.destroy();
    await registry.close();
  }
}, 120_000);
