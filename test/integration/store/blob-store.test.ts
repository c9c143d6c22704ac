import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Digest, hexOf } from '../../../src/domain/model/digest.ts';
import { AppError } from '../../../src/platform/app-error.ts';
import type { AttachmentStore, DocumentStore } from '../../../src/ports/blobs.ts';
import { FileBlobs } from '../../../src/store/files/blobs/blob-store.ts';
import { digestOf } from '../../support/daemon/scenario.ts';
import { eventually } from '../../support/eventually.ts';
import { have } from '../../support/requirements.ts';

const { signal } = new AbortController();
const text = '{"schemaVersion":2}';
const digest = digestOf(text);
let folder: string;
let store: DocumentStore & AttachmentStore;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-blobs-'));
  store = new FileBlobs(folder);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const fileOf = (of: Digest) => join(folder, 'sha256', hexOf(of));

async function readAll(of: Digest, startByte = 0, from = store): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of from.read(of, startByte, signal)) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe('blob store', () => {
  it('is empty at first, then has what was stored, and leaves no other file', async () => {
    expect(await store.sizeOf(digest, signal)).toBeUndefined();
    await store.put(digest, Buffer.from(text), signal);
    await store.put(digest, Buffer.from(text), signal);
    expect(await store.sizeOf(digest, signal)).toBe(text.length);
    expect(await readAll(digest)).toBe(text);
    expect(await readAll(digest, 5)).toBe(text.slice(5));
    expect(readdirSync(folder)).toEqual(['sha256']);
    expect(readdirSync(join(folder, 'sha256'))).toEqual([hexOf(digest)]);
  });

  it('stores many blobs at once, each of which is present when its own put() resolves', async () => {
    const texts = Array.from({ length: 40 }, (_none, at) => `{"schemaVersion":2,"at":${at}}`);
    await Promise.all(
      texts.map(async (one) => {
        await store.put(digestOf(one), Buffer.from(one), signal);
        expect(readFileSync(fileOf(digestOf(one)), 'utf8')).toBe(one);
      }),
    );
    expect([...(await store.list(signal))].sort()).toEqual(texts.map(digestOf).sort());
    expect(readdirSync(folder)).toEqual(['sha256']);
  });

  it('resolves put() only when the name of the blob is on the disk, and keeps nothing when that failed', async () => {
    const ends: ((error?: Error) => void)[] = [];
    const held = new FileBlobs(
      folder,
      () =>
        new Promise((resolve, reject) => {
          ends.push((error) => (error === undefined ? resolve() : reject(error)));
        }),
    );
    const put = async (fail?: Error) => {
      let isPut = false;
      const putting = held.put(digest, Buffer.from(text), signal).then(() => {
        isPut = true;
      });
      await eventually(() => expect(ends).toHaveLength(1));
      expect([isPut, readdirSync(join(folder, 'sha256')).length]).toEqual([false, 1]);
      ends.pop()?.(fail);
      await putting;
    };
    await expect(put(new Error('EIO'))).rejects.toMatchObject({ code: 'store/blob' });
    expect(await held.sizeOf(digest, signal)).toBeUndefined();
    await put();
    expect(await held.sizeOf(digest, signal)).toBe(text.length);
  });

  it('removes a blob, and does not fail when it is absent', async () => {
    await store.put(digest, Buffer.from(text), signal);
    await store.remove(digest, signal);
    await store.remove(digest, signal);
    expect(await store.sizeOf(digest, signal)).toBeUndefined();
    expect([...(await store.list(signal))]).toEqual([]);
    expect(readdirSync(join(folder, 'sha256'))).toEqual([]);
  });

  it.each([
    ['half-written', (path: string) => truncateSync(path, 5)],
    ['changed', (path: string) => writeFileSync(path, text.replace('2', '3'))],
  ])('counts a %s file as absent, and replaces it when the blob is stored again', async (_what, spoil) => {
    await store.put(digest, Buffer.from(text), signal);
    spoil(fileOf(digest));
    expect(await store.sizeOf(digest, signal)).toBeUndefined();
    await expect(readAll(digest)).rejects.toMatchObject({ code: 'media/gone', disposition: 'wait' });
    await store.put(digest, Buffer.from(text), signal);
    expect(await readAll(digest)).toBe(text);
  });

  it('finds a file changed that was right before', async () => {
    await store.put(digest, Buffer.from(text), signal);
    expect([await store.sizeOf(digest, signal), await store.sizeOf(digest, signal)]).toEqual([
      text.length,
      text.length,
    ]);
    utimesSync(fileOf(digest), 1, 1);
    expect(await store.sizeOf(digest, signal)).toBe(text.length);
    rmSync(fileOf(digest));
    writeFileSync(fileOf(digest), text.replace('2', '3'));
    expect(await store.sizeOf(digest, signal)).toBeUndefined();
    expect([...(await store.list(signal))]).toEqual([]);
  });

  it('refuses bytes with another digest, and writes nothing', async () => {
    await expect(store.put(digest, Buffer.from('other'), signal)).rejects.toMatchObject({
      code: 'store/blob',
      message: expect.stringMatching(new RegExp(`${digest}.*${digestOf('other')}`)),
    });
    expect(readdirSync(folder)).toEqual([]);
  });

  it('names the path that it could not read or write', async () => {
    writeFileSync(join(folder, 'file'), '');
    const blocked = new FileBlobs(join(folder, 'file'));
    await expect(blocked.put(digest, Buffer.from(text), signal)).rejects.toMatchObject({
      code: 'store/blob',
      disposition: 'retry',
      message: expect.stringContaining(join(folder, 'file', 'sha256')),
    });
    await store.put(digest, Buffer.from(text), signal);
    rmSync(fileOf(digest));
    mkdirSync(fileOf(digest));
    await expect(store.sizeOf(digest, signal)).rejects.toMatchObject({
      code: 'store/blob',
      message: expect.stringMatching(/can't be read: it is a directory \(EISDIR/),
    });
  });

  it('stops when its signal aborts', async () => {
    const stop = AbortSignal.abort(new Error('stop'));
    await store.put(digest, Buffer.from(text), signal);
    await expect(store.sizeOf(digest, stop)).rejects.toThrow('stop');
    await expect(store.put(digestOf('x'), Buffer.from('x'), stop)).rejects.toThrow('stop');
    await expect(store.list(stop)).rejects.toThrow('stop');
    await expect(store.remove(digest, stop)).rejects.toThrow('stop');
    expect(readdirSync(folder)).toEqual(['sha256']);
    expect([...(await store.list(signal))]).toEqual([digest]);
  });
});

describe.runIf(have('root'))('blob store on a full filesystem', () => {
  it('reports missing space, leaves no half-written file, and continues when there is space', async () => {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder]);
    try {
      const large = Buffer.alloc(60_000, 'x');
      writeFileSync(join(folder, 'ballast'), Buffer.alloc(30_000));
      const of = digestOf(large.toString());
      await expect(store.put(of, large, signal)).rejects.toMatchObject({
        code: 'store/no-space',
        disposition: 'retry',
        message: expect.stringContaining('make room'),
      });
      expect(readdirSync(join(folder, 'sha256'))).toEqual([]);
      rmSync(join(folder, 'ballast'));
      await store.put(of, large, signal);
      expect(await store.sizeOf(of, signal)).toBe(60_000);
    } finally {
      execFileSync('umount', [folder]);
    }
  });
});

describe('a blob too large to be in memory', () => {
  const chunk = Buffer.alloc(1024 * 1024, 'x');
  const chunks = 20;
  const large = digestOf(Buffer.concat(Array.from({ length: chunks }, () => chunk)));
  const sizeBytes = chunks * chunk.length;
  async function* bytes(count = chunks) {
    for (let at = 0; at < count; at += 1) yield chunk;
  }
  const fromByte = (startByte: number) => bytes(chunks - startByte / chunk.length);
  const pulled = new AppError({ code: 'media/gone', message: 'pulled', disposition: 'wait' });
  const part = () => join(folder, `.${hexOf(large)}.part`);
  /** A medium that is pulled after so many chunks. */
  async function* cut(count = 1) {
    yield* bytes(count);
    throw pulled;
  }
  /** Copies the blob, and returns the bytes from which the medium was read. */
  async function copy(into = store): Promise<number[]> {
    const starts: number[] = [];
    const read = (startByte: number) => {
      starts.push(startByte);
      return fromByte(startByte);
    };
    await into.putStream({ digest: large, sizeBytes }, read, signal);
    return starts;
  }

  it('is streamed to a file, and gets further names instead of copies', async () => {
    await store.putStream({ digest: large, sizeBytes }, fromByte, signal);
    expect([await store.sizeOf(large, signal), [...(await store.list(signal))]]).toEqual([sizeBytes, [large]]);
    expect((await readAll(large, sizeBytes - 3)).length).toBe(3);
    expect(digestOf(await readAll(large))).toBe(large);
    const other = join(folder, 'other-name');
    expect(await store.linkTo(large, other, signal)).toBe(true);
    expect(statSync(other).ino).toBe(statSync(fileOf(large)).ino);
    expect(readdirSync(folder).sort()).toEqual(['other-name', 'sha256']);
  });

  it.each([
    ['too few', () => bytes(chunks - 1)],
    ['too many', () => bytes(chunks + 1)],
    ['other', () => [Buffer.alloc(sizeBytes)]],
  ])('leaves nothing when %s bytes come', async (_what, source) => {
    const put = store.putStream({ digest: large, sizeBytes }, () => source() as AsyncIterable<Buffer>, signal);
    await expect(put).rejects.toMatchObject({ code: 'store/blob' });
    expect([await store.sizeOf(large, signal), readdirSync(folder)]).toEqual([undefined, ['sha256']]);
  });

  it('continues from its byte when its medium was removed, also after a restart', async () => {
    const blob = { digest: large, sizeBytes };
    await expect(store.putStream(blob, () => cut(3), signal)).rejects.toBe(pulled);
    expect([readdirSync(folder).sort(), statSync(part()).size]).toEqual([
      [`.${hexOf(large)}.part`, 'sha256'],
      3 * chunk.length,
    ]);
    expect([await store.sizeOf(large, signal), [...(await store.list(signal))]]).toEqual([undefined, []]);
    await expect(store.putStream(blob, () => cut(4), signal)).rejects.toBe(pulled);
    const restarted = new FileBlobs(folder);
    await restarted.list(signal);
    expect(await copy(restarted)).toEqual([7 * chunk.length]);
    expect(readdirSync(folder)).toEqual(['sha256']);
    expect(digestOf(await readAll(large, 0, restarted))).toBe(large);
  });

  it('reads nothing again when only its name was missing, and keeps no part without bytes', async () => {
    await expect(store.putStream({ digest: large, sizeBytes }, () => cut(0), signal)).rejects.toBe(pulled);
    expect(readdirSync(folder)).toEqual(['sha256']);
    await expect(store.putStream({ digest: large, sizeBytes }, () => cut(chunks), signal)).rejects.toBe(pulled);
    expect([await copy(), await store.sizeOf(large, signal)]).toEqual([[], sizeBytes]);
  });

  it.each([
    ['damaged', Buffer.alloc(2 * chunk.length, 'y'), [2 * chunk.length, 0]],
    ['longer than the blob', Buffer.alloc(sizeBytes + 1, 'x'), [0]],
  ])('starts again from the beginning, once, when its part is %s', async (_what, left, starts) => {
    writeFileSync(part(), left);
    expect(await copy()).toEqual(starts);
    expect([readdirSync(folder), digestOf(await readAll(large))]).toEqual([['sha256'], large]);
  });

  it('keeps nothing when the part and the medium are damaged', async () => {
    writeFileSync(part(), Buffer.alloc(chunk.length, 'y'));
    const starts: number[] = [];
    const damaged = (startByte: number) => {
      starts.push(startByte);
      return [Buffer.alloc(sizeBytes - startByte)] as unknown as AsyncIterable<Buffer>;
    };
    await expect(store.putStream({ digest: large, sizeBytes }, damaged, signal)).rejects.toMatchObject({
      code: 'store/blob',
    });
    expect([starts, readdirSync(folder)]).toEqual([[chunk.length, 0], ['sha256']]);
  });

  it('is copied twice at once without harm', async () => {
    await expect(store.putStream({ digest: large, sizeBytes }, () => cut(2), signal)).rejects.toBe(pulled);
    const both = await Promise.all([copy(), copy()]);
    expect(both.flat().sort()).toEqual([0, 2 * chunk.length]);
    expect([readdirSync(folder), digestOf(await readAll(large))]).toEqual([['sha256'], large]);
  });

  it('is removed after a week when nobody continued it', async () => {
    const other = join(folder, `.${hexOf(digest)}.part`);
    for (const [path, days] of [
      [part(), 8],
      [other, 6],
    ] as const) {
      writeFileSync(path, 'part');
      const then = new Date(Date.now() - days * 24 * 60 * 60 * 1000);
      utimesSync(path, then, then);
    }
    await store.list(signal);
    expect(readdirSync(folder)).toEqual([`.${hexOf(digest)}.part`]);
  });

  it('is swept up when a crash left it half-written', async () => {
    writeFileSync(join(folder, `.${hexOf(large)}.0123abcd`), 'half');
    await store.list(signal);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('is refused where it would use the space that is to stay free', async () => {
    const full = new FileBlobs(folder, undefined, () => 100);
    await expect(full.putStream({ digest: large, sizeBytes }, fromByte, signal)).rejects.toMatchObject({
      code: 'store/no-space',
      message: expect.stringMatching(
        /needs 20 MiB, .* are free, and .* \(100 %\) must stay free by preload\.min_free_percent/,
      ),
    });
  });

  it.runIf(have('root'))(
    'needs space only for the missing bytes, and parts of other blobs are removed for it',
    async () => {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=30m', 'tmpfs', folder]);
      try {
        await expect(store.putStream({ digest: large, sizeBytes }, () => cut(15), signal)).rejects.toBe(pulled);
        writeFileSync(join(folder, `.${hexOf(digest)}.part`), Buffer.alloc(12 * chunk.length));
        expect(await copy()).toEqual([15 * chunk.length]);
        expect(readdirSync(folder)).toEqual(['sha256']);
      } finally {
        execFileSync('umount', [folder]);
      }
    },
  );

  it('is removed instead of linked when its bytes have changed', async () => {
    await store.putStream({ digest: large, sizeBytes }, fromByte, signal);
    const file = openSync(fileOf(large), 'r+');
    writeSync(file, 'y', 5);
    closeSync(file);
    expect(await store.linkTo(large, join(folder, 'other-name'), signal)).toBe(false);
    expect([await store.sizeOf(large, signal), readdirSync(folder)]).toEqual([undefined, ['sha256']]);
  });
});
