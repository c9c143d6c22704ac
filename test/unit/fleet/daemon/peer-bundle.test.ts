import { beforeEach, describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { PeerBundle, type PeerClient, PeerTurn } from '../../../../src/fleet/daemon/peer-bundle.ts';
import { connectionError } from '../../../../src/fleet/wire/connection.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { deferred, untilAborted } from '../../../../src/platform/async/abort.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { digestOf } from '../../../../src/platform/digest.ts';

const MIB = 1024 * 1024;
const LAYER = Buffer.alloc(MIB, 'the bytes of a layer ');
const DIGEST = digestOf(LAYER);
const offered = { bundleId: digestOf('a bundle'), name: 'ocp', version: '4.13.7', sequence: 7, isWhole: true };
const cut = Object.assign(new Error('aborted'), { code: 'ECONNRESET' });
const never = new AbortController().signal;

/** What the peer sends from a byte on. */
let send: (startByte: number) => AsyncIterable<Buffer>;
/** Where each request to the peer began. */
let asked: number[];
let turn: PeerTurn;

beforeEach(() => {
  asked = [];
  turn = new PeerTurn({
    tryBlob: async () => undefined,
    changed: () => undefined,
    failed: () => undefined,
    clock: systemClock,
    random: () => 0.5,
  });
});

/** The blobs of a bundle on a peer that lists one layer. */
function blobs(listed: PeerClient['blobs'] = async () => new Map([[DIGEST, LAYER.length]])) {
  const client: Pick<PeerClient, 'blobs' | 'read'> = {
    blobs: listed,
    read: (_digest, startByte) => {
      asked.push(startByte);
      return send(startByte);
    },
  };
  const ownBlobs = { sizeOf: async () => undefined, read: () => send(0) };
  const access = { name: 'worker-1', client: client as PeerClient, turn, ownBlobs, clock: systemClock };
  return new PeerBundle(access, { ...offered, revision: 'r1' }).blobs;
}

/** Reads from a byte on, and gives what came. */
async function read(startByte = 0): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of blobs().read(DIGEST, startByte, never)) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

describe('a blob of another node', () => {
  it.each([0, 1_000])('is read up to its size from byte %i, though the answer has no end', async (startByte) => {
    let sent = 0;
    send = async function* () {
      yield LAYER.subarray(startByte, MIB - 10);
      for (;;) {
        sent += 1;
        if (sent > 2) throw new Error('more was read than the blob has');
        yield Buffer.alloc(1_000);
      }
    };
    const bytes = await read(startByte);
    expect(bytes).toHaveLength(MIB - startByte);
    expect(bytes.subarray(0, -10).equals(LAYER.subarray(startByte, -10))).toBe(true);
    expect(sent).toBe(1);
  });

  it('has its size for one who waits, though another one who asked first gives up', async () => {
    const answer = deferred<ReadonlyMap<Digest, number>>();
    const shared = blobs((_bundle, signal) => untilAborted(answer.promise, signal));
    const stop = new AbortController();
    const first = shared.sizeOf(DIGEST, stop.signal);
    const second = shared.sizeOf(DIGEST, never);
    stop.abort(new Error('no longer wanted'));
    await expect(first).rejects.toThrow('no longer wanted');
    answer.resolve(new Map([[DIGEST, LAYER.length]]));
    expect(await second).toBe(LAYER.length);
  });

  it('that the peer can not read is no fault of the peer', async () => {
    // biome-ignore lint/correctness/useYield: it fails before the first byte
    send = async function* () {
      throw new AppError({ code: 'offers/failed', message: 'worker-1 can not give it: EIO', disposition: 'retry' });
    };
    await expect(read()).rejects.toMatchObject({ code: 'media/read', message: 'worker-1 can not give it: EIO' });
    expect(turn.state()).toEqual({ isReady: true });
  });

  it('that is cut is asked for from the next byte, where the peer tells that it can not read it', async () => {
    send = async function* (startByte) {
      if (startByte === 0) yield LAYER.subarray(0, 100_000);
      // What was under way when the connection was cut may be less.
      if (startByte === 100_000) yield LAYER.subarray(100_000, 100_010);
      if (startByte < 100_010) throw connectionError('worker-1', cut);
      throw new AppError({ code: 'offers/failed', message: 'EIO', disposition: 'retry' });
    };
    await expect(read()).rejects.toMatchObject({ code: 'media/read', message: 'EIO' });
    expect(asked).toEqual([0, 100_000, 100_010]);
    expect(turn.state()).toEqual({ isReady: true });
  });

  it('that is cut goes on at the same peer when that can read it after all', async () => {
    send = async function* (startByte) {
      yield LAYER.subarray(startByte, startByte + MIB / 2);
      if (startByte === 0) throw connectionError('worker-1', cut);
    };
    expect((await read()).equals(LAYER)).toBe(true);
  });

  it('that is cut again and again after a few bytes, or not given at all, is left to other nodes', async () => {
    send = async function* (startByte) {
      yield LAYER.subarray(startByte, startByte + 10);
      throw connectionError('worker-1', cut);
    };
    await expect(read()).rejects.toMatchObject({ code: 'media/gone' });
    expect(asked).toEqual([0, 10]);
    expect(turn.state()).toEqual({ isReady: false, hasFailed: true });
    turn.close();
  });

  it('is not asked for when nothing of it is left', async () => {
    expect(await read(MIB)).toHaveLength(0);
    expect(asked).toEqual([]);
  });
});
