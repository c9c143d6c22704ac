import { createHash } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { type Digest, digestFromHex } from '../../../../src/domain/model/digest.ts';
import { LayerKeeper } from '../../../../src/engine/keepers/layer-keeper.ts';
import { Jobs } from '../../../../src/engine/tasks/jobs.ts';
import { newBuffer } from '../../../../src/platform/files/file-access.ts';
import type { BlobUnion, CopyFault, LayerStore } from '../../../../src/ports/blobs.ts';
import { layer } from '../../../support/daemon/scenario.ts';
import { createVirtualClock, type VirtualClock } from '../../../support/fake-ports.ts';
import { createRecordingLog, type RecordingLog } from '../../../support/recording-log.ts';

const hashOf = (bytes: Buffer): Digest => digestFromHex(createHash('sha256').update(bytes).digest('hex'));
const right = Buffer.from('the bytes of a layer');
const wrong = Buffer.from('the bytes of a lawyer');
const digest = hashOf(right);
const wanted = layer('kept', { digest, sizeBytes: right.length });

let clock: VirtualClock;
let log: RecordingLog;
let keeper: LayerKeeper;
let kept: Map<Digest, Buffer>;
/** What each medium gives, one reading after the other; the last stays. */
let media: Map<string, Buffer[]>;
let readings: string[];
/** The memory that the layers were read into. */
let memory: Set<ArrayBufferLike>;
/** What a write waits for. */
let disk: Promise<void>;

/** Hashes like the real store, in memory. */
function memoryStore(): Pick<LayerStore, 'begin' | 'sizeOf' | 'want' | 'retain'> {
  return {
    want: () => undefined,
    retain: async () => 0,
    sizeOf: async (one) => kept.get(one)?.length,
    begin: async (one) => {
      const chunks: Buffer[] = [];
      const isWhole = () => Buffer.concat(chunks).length >= right.length;
      const isWrong = () => hashOf(Buffer.concat(chunks)) !== one;
      return {
        startByte: 0,
        async *replay() {},
        write: async (chunk) => {
          chunks.push(chunk);
          await disk;
        },
        isDamaged: () => isWhole() && isWrong(),
        close: async () => {
          if (!isWrong()) kept.set(one, Buffer.concat(chunks));
        },
      };
    },
  };
}

function unionOf(): Pick<BlobUnion, 'read' | 'copiesOf'> {
  const distrusted = new Set<string>();
  const read = async function* (label: string, signal: AbortSignal) {
    signal.throwIfAborted();
    readings.push(label);
    const given = media.get(label) ?? [];
    yield (given.length > 1 ? given.shift() : given[0]) ?? Buffer.alloc(0);
    signal.throwIfAborted();
  };
  const copies = () =>
    [...media.keys()]
      .map((label) => ({
        label,
        isTrusted: !distrusted.has(label),
        read: (_startByte: number, signal: AbortSignal) => read(label, signal),
        distrust: (_fault: CopyFault) => void distrusted.add(label),
      }))
      .sort((a, b) => Number(b.isTrusted) - Number(a.isTrusted));
  return {
    copiesOf: async () => copies(),
    read: (_digest, _startByte, signal, allocate = newBuffer) => {
      for (let chunk = 0; chunk < 3; chunk += 1) memory.add(allocate(right.length).buffer);
      return read(copies()[0]?.label ?? '', signal);
    },
  };
}

beforeEach(() => {
  clock = createVirtualClock();
  log = createRecordingLog();
  kept = new Map();
  media = new Map();
  readings = [];
  memory = new Set();
  disk = Promise.resolve();
  const layers = memoryStore() as LayerStore;
  keeper = new LayerKeeper(new Jobs(clock, () => undefined), clock, log, layers, unionOf() as BlobUnion);
});
/** A round later: the keeper is told again what is to be kept. */
const follow = async (ms = 0, isIdle = true) => {
  await clock.advance(ms);
  const copy = kept.has(digest) ? [] : [wanted];
  keeper.reconcile({ plan: { wanted: new Set([digest]), copy }, isIdle });
  await clock.advance(0);
};
const lines = () => log.lines.map(({ message }) => message);

describe('the layer keeper', () => {
  it('copies layers that are to be kept', async () => {
    media.set('sdb1', [right]);
    await follow();
    expect(kept.get(digest)).toEqual(right);
    expect(lines()).toEqual([]);
  });

  it('reads a layer into one buffer', async () => {
    media.set('sdb1', [right]);
    await follow();
    expect(memory.size).toBe(1);
  });

  it('names a damaged copy, and reads another one the next time', async () => {
    media.set('sdb1', [wrong]).set('sdc1', [right]);
    await follow();
    expect(kept.size).toBe(0);
    expect(lines()).toEqual([
      `Blob ${digest} could not be kept on this node: it is damaged on sdb1. Copy the bundle to it again`,
    ]);
    await follow();
    expect(kept.get(digest)).toEqual(right);
    expect(readings).toEqual(['sdb1', 'sdb1', 'sdc1']);
  });

  it('reads a damaged only copy just once, and logs it once', async () => {
    media.set('sdb1', [wrong]);
    await follow();
    for (let minute = 0; minute < 10; minute += 1) await follow(60_000);
    expect(readings).toHaveLength(2);
    expect(lines()).toHaveLength(1);
    media.set('sdc1', [right]);
    await follow(60_000);
    expect(kept.get(digest)).toEqual(right);
  });

  it('copies a layer again when it was read with wrong bytes but its copy is good', async () => {
    media.set('sdb1', [wrong, right]);
    await follow();
    expect(lines()[0]).toContain('was read with wrong bytes, but its copies have the right ones');
    await follow(60_000);
    expect(kept.get(digest)).toEqual(right);
  });

  it('names a layer with wrong bytes even if a pull reads the medium first, and copies it again', async () => {
    let goOn: () => void = () => undefined;
    disk = new Promise((resolve) => {
      goOn = resolve;
    });
    media.set('sdb1', [wrong, right]);
    await follow();
    await follow(0, false);
    goOn();
    await expect.poll(() => keeper.copyingBytes()).toBeUndefined();
    expect(lines()).toEqual([
      `Blob ${digest} was read with wrong bytes; it is copied again later, since pulls need its medium now`,
    ]);
    await follow();
    expect(kept.get(digest)).toEqual(right);
    expect(lines()).toHaveLength(1);
  });
});
