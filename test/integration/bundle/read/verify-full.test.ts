import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { FileBundleReader } from '../../../../src/bundle/read/bundle-reader.ts';
import { openBundle } from '../../../../src/bundle/read/open-bundle.ts';
import { verifyBlobs } from '../../../../src/bundle/verify/verify-blobs.ts';
import { type Digest, digestFromHex } from '../../../../src/domain/model/digest.ts';
import { packDirectory } from '../../../../src/factory/output/volumes.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
const MiB = 1024 * 1024;
const path = folderForEach();
let folder: string;
beforeEach(() => {
  folder = join(path, 'blobs', 'sha256');
  mkdirSync(folder, { recursive: true });
});

/** Blobs whose sizes lie around the edges of what is read at once, in no order. */
const sizes = [3, MiB, 0, 5 * MiB + 7, MiB + 1, MiB - 1, 40 * MiB, 1, 511, 512, 2 * MiB];

function put(sizeBytes: number, at: number): [Digest, number] {
  const bytes = Buffer.alloc(sizeBytes, `blob ${at} `);
  const hex = createHash('sha256').update(bytes).digest('hex');
  writeFileSync(join(folder, hex), bytes);
  return [digestFromHex(hex), sizeBytes];
}

const fileOf = (digest: Digest | undefined) => join(folder, digest?.slice('sha256:'.length) ?? 'none');

function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return []; // closed since it was listed, as the one that listed them
    }
  });
}

describe('reading every blob', () => {
  it('finds all of them right, and counts every byte', async () => {
    const blobs = new Map(sizes.map(put));
    let readBytes = 0;
    const faults = await verifyBlobs(openBundle(path), blobs, signal, (bytes) => {
      readBytes += bytes;
    });
    expect(faults).toEqual([]);
    expect(readBytes).toBe([...blobs.values()].reduce((sum, size) => sum + size, 0));
    expect(openFiles().filter((file) => file.startsWith(path))).toEqual([]);
  });

  it('names the blob, the file and what is wrong with it, in the order asked', async () => {
    const blobs = new Map(sizes.map(put));
    const [short, absent, , flipped, linked, folderLike] = [...blobs.keys()];
    truncateSync(fileOf(short), 2);
    rmSync(fileOf(absent));
    const other = Buffer.alloc(5 * MiB + 7, 'x');
    writeFileSync(fileOf(flipped), other);
    rmSync(fileOf(linked));
    symlinkSync(fileOf(folderLike), fileOf(linked));
    const faults = await verifyBlobs(openBundle(path), blobs, signal);
    expect(faults).toEqual([
      { digest: short, why: 'truncated', file: fileOf(short), detail: 'it has 2 bytes, and not 3' },
      { digest: absent, why: 'absent', file: fileOf(absent), detail: 'it is not there' },
      {
        digest: flipped,
        why: 'damaged',
        file: fileOf(flipped),
        detail: `it has digest sha256:${createHash('sha256').update(other).digest('hex')}`,
      },
      { digest: linked, why: 'absent', file: fileOf(linked), detail: 'it is not there' },
    ]);
  });

  it('reads a bundle in tar form in place', async () => {
    const blobs = new Map(sizes.map(put));
    for (const name of ['bundle.dsse.json', 'index.json', 'oci-layout']) writeFileSync(join(path, name), '{}');
    const file = `${path}.stickpin.tar`;
    try {
      await packDirectory(path, file, { created: '2026-01-01T00:00:00Z', onProgress: () => undefined }, signal);
      expect(await verifyBlobs(openBundle(file), blobs, signal)).toEqual([]);
      const [digest] = put(99, 99);
      const [, , , , , , , , first] = [...blobs.keys()];
      const wrong = new Map([[digest, 99] as const, [first ?? digest, 512] as const]);
      expect(await verifyBlobs(openBundle(file), wrong, signal)).toMatchObject([
        { digest, why: 'absent', file },
        { digest: first, why: 'truncated', file },
      ]);
    } finally {
      rmSync(file, { force: true });
    }
  });

  it('reports a bad sector as damage of its blob, and continues with the next blob', async () => {
    const [good, sizeBytes] = put(10, 0);
    const bad = digestFromHex('a'.repeat(64));
    const reader = openBundle(path);
    // Reading address 0 of a process fails with EIO, as a bad sector does.
    const halfBad: FileBundleReader = {
      ...reader,
      placeOf: async (digest, through) =>
        digest === bad ? { file: '/proc/self/mem', startByte: 0, sizeBytes: 10 } : reader.placeOf(digest, through),
    };
    const blobs = new Map([[bad, 10] as const, [good, sizeBytes] as const]);
    expect(await verifyBlobs(halfBad, blobs, signal)).toEqual([
      { digest: bad, why: 'damaged', file: '/proc/self/mem', detail: expect.stringContaining('EIO') },
    ]);
  });

  it('reports a file that shrinks while it is read as damaged', async () => {
    const [digest] = put(10, 0);
    const reader = openBundle(path);
    const late: FileBundleReader = {
      ...reader,
      placeOf: async (one, through) => ({ ...(await reader.placeOf(one, through)), sizeBytes: 20 }),
    };
    expect(await verifyBlobs(late, new Map([[digest, 20]]), signal)).toMatchObject([
      { digest, why: 'damaged', detail: expect.stringContaining('ended at byte 10') },
    ]);
  });

  it('ends when the medium goes away', async () => {
    const blobs = new Map(sizes.map(put));
    const gone: FileBundleReader = {
      ...openBundle(path),
      placeOf: async () => ({ file: join(path, 'gone'), startByte: 0, sizeBytes: 3 }),
    };
    const some = new Map([...blobs].filter(([, size]) => size === 3));
    await expect(verifyBlobs(gone, some, signal)).rejects.toMatchObject({ code: 'media/gone', disposition: 'wait' });
  });

  it('does nothing when there are no blobs', async () => {
    expect(await verifyBlobs(openBundle(path), new Map(), signal)).toEqual([]);
  });
});

describe('an interruption', () => {
  it('ends the reading of a blob that would take hours, and closes its file', async () => {
    const holes = ['b', 'c'].map((digit) => digestFromHex(digit.repeat(64)));
    const sizeBytes = 2 ** 42;
    for (const digest of holes) {
      writeFileSync(fileOf(digest), '');
      truncateSync(fileOf(digest), sizeBytes);
    }
    const stop = new AbortController();
    const read = verifyBlobs(openBundle(path), new Map(holes.map((digest) => [digest, sizeBytes])), stop.signal, () =>
      stop.abort(new Error('interrupted')),
    );
    await expect(read).rejects.toThrow('interrupted');
    await eventually(() => expect(openFiles().filter((file) => file.startsWith(path))).toEqual([]));
  });

  it('that came before the start reads nothing', async () => {
    const blobs = new Map(sizes.map(put));
    await expect(verifyBlobs(openBundle(path), blobs, AbortSignal.abort(new Error('before')))).rejects.toThrow(
      'before',
    );
  });
});
