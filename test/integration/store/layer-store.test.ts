import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Digest, hexOf, parseDigest } from '../../../src/domain/model/digest.ts';
import type { LayerStore, LayerWriter } from '../../../src/ports/blobs.ts';
import { FileLayers } from '../../../src/store/files/layers/layer-store.ts';
import { digestOf as digestOfBytes, seededBytes } from '../../support/bundles/sample-image.ts';
import { createRecordingLog, type RecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';

const MIB = 1024 * 1024;
const { signal } = new AbortController();
const bytes = seededBytes('layer', 3 * MIB);
const digest = digestIn(bytes);
let folder: string;
let log: RecordingLog;
let store: LayerStore;

function digestIn(content: Buffer): Digest {
  return parseDigest(digestOfBytes(content)) as Digest;
}
const makeStore = (minFreePercent = 0): LayerStore => {
  const made = new FileLayers({ folder, minFreePercent: () => minFreePercent, log });
  made.want(new Set([digest]));
  return made;
};
beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), 'stickpin-layers-')), 'layers');
  log = createRecordingLog();
  store = makeStore();
});
afterEach(() => rmSync(join(folder, '..'), { recursive: true, force: true }));

const begin = async (startByte?: number, of = store): Promise<LayerWriter> => {
  const writer = await of.begin(digest, bytes.length, startByte, signal);
  if (writer === undefined) throw new Error('not begun');
  return writer;
};
const feed = async (writer: LayerWriter, from: number, to: number, content = bytes): Promise<void> => {
  for (let at = from; at < to; at += MIB / 2)
    await writer.write(content.subarray(at, Math.min(at + MIB / 2, to)), signal);
  await writer.close();
};
const readAll = async (startByte = 0): Promise<Buffer> => {
  const chunks: Buffer[] = [];
  for await (const chunk of store.read(digest, startByte, signal)) chunks.push(chunk);
  return Buffer.concat(chunks);
};
const isKept = async () => (await store.list(signal)).has(digest);

describe('layer store', () => {
  it('tells whether it is on the filesystem of another path, also before its folder exists', async () => {
    expect(await store.isBeside(join(folder, '../..'), signal)).toBe(true);
    expect(await store.isBeside('/proc', signal)).toBe(false);
    expect(await store.isBeside(join(folder, 'absent'), signal)).toBe(false);
    expect(existsSync(folder)).toBe(false);
  });

  it('keeps a layer that was streamed as a whole, also after a restart', async () => {
    const changes: number[] = [];
    store.onChange(() => changes.push(1));
    await feed(await begin(0), 0, bytes.length);
    expect(await isKept()).toBe(true);
    expect(changes).toEqual([1]);
    expect(readdirSync(folder)).toEqual([hexOf(digest)]);
    expect(await store.sizeOf(digest, signal)).toBe(bytes.length);
    expect((await readAll()).equals(bytes)).toBe(true);
    expect((await readAll(MIB + 7)).equals(bytes.subarray(MIB + 7))).toBe(true);
    store = makeStore();
    expect(await isKept()).toBe(true);
    expect(await store.begin(digest, bytes.length, 0, signal)).toBeUndefined();
  });

  it('notices a layer that was removed meanwhile, and copies it again', async () => {
    await feed(await begin(0), 0, bytes.length);
    expect(await isKept()).toBe(true);
    const changes: number[] = [];
    store.onChange(() => changes.push(1));
    rmSync(join(folder, hexOf(digest)));
    expect(await isKept()).toBe(false);
    expect(await isKept()).toBe(false);
    expect(changes).toEqual([1]);
    await feed(await begin(0), 0, bytes.length);
    expect((await readAll()).equals(bytes)).toBe(true);
  });

  it('says how much of an incomplete layer is there', async () => {
    expect(await store.parts(signal)).toEqual(new Map());
    await feed(await begin(0), 0, MIB);
    expect(await store.parts(signal)).toEqual(new Map([[digest, MIB]]));
    expect(await makeStore().parts(signal)).toEqual(new Map([[digest, MIB]]));
    await feed(await begin(), MIB, bytes.length);
    expect(await store.parts(signal)).toEqual(new Map());
  });

  it.each([
    ['where it broke off', MIB],
    ['before it', MIB / 2],
  ])('continues %s, in this run and in the next', async (_where, from) => {
    await feed(await begin(0), 0, MIB);
    const next = await begin(from);
    expect(next.startByte).toBe(MIB);
    await feed(next, MIB, 2 * MIB);
    expect(await isKept()).toBe(false);
    store = makeStore();
    const writer = await begin();
    expect(writer.startByte).toBe(2 * MIB);
    await feed(writer, 2 * MIB, bytes.length);
    expect((await readAll()).equals(bytes)).toBe(true);
  });

  it('returns the bytes written before, from any position, and accepts those that follow', async () => {
    const replayed = async (writer: LayerWriter) => {
      const chunks: Buffer[] = [];
      for await (const chunk of writer.replay(signal)) chunks.push(chunk);
      return Buffer.concat(chunks);
    };
    await feed(await begin(0), 0, 2 * MIB);
    const writer = await begin(MIB + 7);
    expect(writer.startByte).toBe(2 * MIB);
    expect((await replayed(writer)).equals(bytes.subarray(MIB + 7, 2 * MIB))).toBe(true);
    await feed(writer, 2 * MIB, 2 * MIB + MIB / 2);
    // What an earlier run has left may have gone through a power cut: it is not given to anybody
    // before its digest is right.
    store = makeStore();
    const later = await begin(MIB);
    expect(later.startByte).toBe(MIB);
    expect(await replayed(later)).toHaveLength(0);
    await feed(later, MIB, bytes.length);
    expect((await readAll()).equals(bytes)).toBe(true);
  });

  it('is resumed at once by the aborted caller, before its file is closed', async () => {
    const writer = await begin(0);
    await writer.write(bytes.subarray(0, MIB), signal);
    const closed = writer.close();
    const next = await begin(MIB);
    await closed;
    await feed(next, MIB, bytes.length);
    expect(await isKept()).toBe(true);
  });

  it('keeps nothing when what was written before can not be read again', async () => {
    await feed(await begin(0), 0, MIB);
    const writer = await begin(0);
    rmSync(join(folder, `${hexOf(digest)}.part`));
    await expect(writer.replay(signal)[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'store/blob' });
    await writer.write(bytes.subarray(MIB), signal);
    expect(await isKept()).toBe(false);
    await feed(await begin(0), 0, bytes.length);
    expect(await isKept()).toBe(true);
  });

  it('does not begin behind a gap, a layer that is not wanted, or the same layer twice at once', async () => {
    await feed(await begin(0), 0, MIB);
    expect(await store.begin(digest, bytes.length, MIB + 1, signal)).toBeUndefined();
    const writer = await begin(0);
    expect(await store.begin(digest, bytes.length, 0, signal)).toBeUndefined();
    await writer.close();
    store.want(new Set());
    expect(await store.begin(digest, bytes.length, 0, signal)).toBeUndefined();
  });

  it('begins, lists and removes nothing after an abort, and closes its writer', async () => {
    const stop = new AbortController();
    const writer = await begin(0);
    await writer.write(bytes.subarray(0, MIB), signal);
    stop.abort(new Error('stop'));
    await writer.write(bytes.subarray(MIB), stop.signal);
    await writer.write(bytes.subarray(MIB), signal);
    expect(await isKept()).toBe(false);
    for (const work of [
      () => store.begin(digest, bytes.length, 0, stop.signal),
      () => store.list(stop.signal),
      () => store.sizeOf(digest, stop.signal),
      () => store.isBeside('/proc', stop.signal),
      () => store.retain(new Set(), stop.signal),
    ]) {
      await expect(work()).rejects.toThrow('stop');
    }
    expect(log.lines).toEqual([]);
    expect(readdirSync(folder)).toEqual([`${hexOf(digest)}.part`]);
    // What is there so far is gone on with.
    const next = await begin();
    expect(next.startByte).toBe(MIB);
    await feed(next, MIB, bytes.length);
    expect(await isKept()).toBe(true);
  });

  it('stops hashing files of an earlier run when it is aborted', async () => {
    await feed(await begin(0), 0, MIB);
    store = makeStore();
    await expect(store.begin(digest, bytes.length, 0, AbortSignal.abort(new Error('stop')))).rejects.toThrow('stop');
    await feed(await begin(MIB), MIB, bytes.length);
    expect(await isKept()).toBe(true);
  });

  it('keeps nothing that has another digest', async () => {
    const wrong = Buffer.from(bytes);
    wrong[5] = (wrong[5] ?? 0) ^ 1;
    const writer = await begin(0);
    await feed(writer, 0, bytes.length, wrong);
    expect(writer.isDamaged()).toBe(true);
    expect(await isKept()).toBe(false);
    expect(readdirSync(folder)).toEqual([]);
    const right = await begin(0);
    await feed(right, 0, bytes.length);
    expect(right.isDamaged()).toBe(false);
  });

  it('reports a damaged layer when its last bytes are handed over, before they are on the disk', async () => {
    const wrong = Buffer.from(bytes);
    wrong[5] = (wrong[5] ?? 0) ^ 1;
    const writer = await begin(0);
    await writer.write(wrong.subarray(0, bytes.length - 1), signal);
    expect(writer.isDamaged()).toBe(false);
    const written = writer.write(wrong.subarray(bytes.length - 1), signal);
    expect(writer.isDamaged()).toBe(true);
    await written;
    await writer.close();
    expect(readdirSync(folder)).toEqual([]);
  });

  it('removes a layer whose bytes changed when it is read, and gives nobody its last bytes', async () => {
    await feed(await begin(0), 0, bytes.length);
    const path = join(folder, hexOf(digest));
    const wrong = readFileSync(path);
    wrong[9] = (wrong[9] ?? 0) ^ 1;
    writeFileSync(path, wrong);
    let given = 0;
    const read = async () => {
      for await (const chunk of store.read(digest, 0, signal)) {
        given += chunk.length;
        if (given === bytes.length) return;
      }
    };
    await expect(read()).rejects.toMatchObject({ code: 'store/blob', disposition: 'reject' });
    expect(given).toBeLessThan(bytes.length);
    expect(await isKept()).toBe(false);
    expect(existsSync(path)).toBe(false);
  });

  it('names a complete layer that a crash left without its name', async () => {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `${hexOf(digest)}.part`), bytes);
    expect(await store.begin(digest, bytes.length, 0, signal)).toBeUndefined();
    expect(await isKept()).toBe(true);
  });

  it('removes what is not to be kept, half-written files too', async () => {
    await feed(await begin(0), 0, bytes.length);
    writeFileSync(join(folder, `${'0'.repeat(64)}.part`), 'half');
    expect(await store.retain(new Set([digest]), signal)).toBe(0);
    expect(readdirSync(folder)).toEqual([hexOf(digest)]);
    expect(await store.retain(new Set(), signal)).toBe(1);
    expect(readdirSync(folder)).toEqual([]);
    expect(await isKept()).toBe(false);
  });

  describe.runIf(have('root'))('on a small disk', () => {
    beforeEach(() => {
      mkdirSync(folder);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', folder]);
    });
    afterEach(() => execFileSync('umount', ['--lazy', folder]));

    it('begins no layer that would use the space that is to stay free', async () => {
      store = makeStore(50);
      expect(await store.begin(digest, bytes.length, 0, signal)).toBeUndefined();
      expect(log.lines.at(-1)?.message).toContain('has no room');
    });

    it('ends the writer but not the transfer when the disk fills up, and leaves no half-written file', async () => {
      const writer = await begin(0);
      writeFileSync(join(folder, 'other'), Buffer.alloc(2 * MIB));
      await feed(writer, 0, bytes.length);
      expect(log.lines.at(-1)?.message).toContain('ENOSPC');
      expect(readdirSync(folder)).toEqual(['other']);
      rmSync(join(folder, 'other'));
      await feed(await begin(0), 0, bytes.length);
      expect(await isKept()).toBe(true);
    });
  });
});
