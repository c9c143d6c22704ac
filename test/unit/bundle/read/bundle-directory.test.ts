import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { openBundleDirectory } from '../../../../src/bundle/read/bundle-directory.ts';
import { mediaError, openRegularFile, streamFile } from '../../../../src/bundle/read/open-file.ts';
import { digestFromHex, hexOf } from '../../../../src/domain/model/digest.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

const MiB = 1024 * 1024;
const digest = digestFromHex('ab'.repeat(32));
const { signal } = new AbortController();
let path: string;
let blob: string;
beforeEach(() => {
  path = temporaryFolder();
  mkdirSync(join(path, 'blobs', 'sha256'), { recursive: true });
  blob = join(path, 'blobs', 'sha256', hexOf(digest));
  writeFileSync(join(path, 'bundle.dsse.json'), '{}');
});

async function collect(chunks: AsyncIterable<Buffer>): Promise<Buffer[]> {
  const all: Buffer[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return all;
}

function openFiles(): string[] {
  return readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return [readlinkSync(`/proc/self/fd/${fd}`)];
    } catch {
      return [];
    }
  });
}

describe('blobs of a bundle directory', () => {
  it('are read from any byte, in chunks of at most 1 MiB', async () => {
    const bytes = Buffer.alloc(2 * MiB + 7, 'stickpin');
    writeFileSync(blob, bytes);
    const reader = openBundleDirectory(path);
    expect(await reader.sizeOf(digest, signal)).toBe(bytes.length);
    const chunks = await collect(reader.read(digest, 5, signal));
    expect(chunks.map((chunk) => chunk.length)).toEqual([MiB, MiB, 2]);
    expect(Buffer.concat(chunks).equals(bytes.subarray(5))).toBe(true);
    expect(await collect(reader.read(digest, bytes.length, signal))).toEqual([]);
    expect(openFiles()).not.toContain(blob);
  });

  it('may be absent, and may come later', async () => {
    const reader = openBundleDirectory(path);
    expect(await reader.sizeOf(digest, signal)).toBeUndefined();
    await expect(collect(reader.read(digest, 0, signal))).rejects.toMatchObject({
      code: 'media/gone',
      disposition: 'wait',
    });
    rmSync(join(path, 'blobs'), { recursive: true });
    const bare = openBundleDirectory(path);
    expect(await bare.sizeOf(digest, signal)).toBeUndefined();
    mkdirSync(join(path, 'blobs', 'sha256'), { recursive: true });
    writeFileSync(blob, 'x');
    expect(await bare.sizeOf(digest, signal)).toBe(1);
  });

  it('are closed at once on an abort, even while the consumer holds a chunk', async () => {
    writeFileSync(blob, Buffer.alloc(3 * MiB));
    const abort = new AbortController();
    const iterator = openBundleDirectory(path).read(digest, 0, abort.signal)[Symbol.asyncIterator]();
    await iterator.next();
    expect(openFiles()).toContain(blob);
    abort.abort(new Error('stick removed'));
    await expect.poll(openFiles).not.toContain(blob);
    await expect(iterator.next()).rejects.toThrow('stick removed');
  });

  it('are closed when the consumer stops', async () => {
    writeFileSync(blob, Buffer.alloc(3 * MiB));
    for await (const _chunk of openBundleDirectory(path).read(digest, 0, signal)) break;
    expect(openFiles()).not.toContain(blob);
  });

  it('that shrink meanwhile are a read error', async () => {
    writeFileSync(blob, Buffer.alloc(3 * MiB));
    const iterator = openBundleDirectory(path).read(digest, 0, signal)[Symbol.asyncIterator]();
    await iterator.next();
    truncateSync(blob, MiB);
    await expect(iterator.next()).rejects.toMatchObject({ code: 'media/read', disposition: 'retry' });
  });

  it('are not opened under an aborted signal', async () => {
    writeFileSync(blob, 'x');
    const aborted = AbortSignal.abort(new Error('stop'));
    const reader = openBundleDirectory(path);
    await expect(reader.sizeOf(digest, aborted)).rejects.toThrow('stop');
    await expect(collect(reader.read(digest, 0, aborted))).rejects.toThrow('stop');
    await expect(reader.readFile('bundle.dsse.json', 10, aborted)).rejects.toThrow('stop');
  });
});

describe('names', () => {
  it('are matched regardless of case', async () => {
    writeFileSync(blob, 'x');
    renameSync(join(path, 'blobs', 'sha256'), join(path, 'blobs', 'SHA256'));
    renameSync(join(path, 'blobs'), join(path, 'Blobs'));
    renameSync(join(path, 'bundle.dsse.json'), join(path, 'BUNDLE.DSSE.JSON'));
    const reader = openBundleDirectory(path);
    expect(await reader.sizeOf(digest, signal)).toBe(1);
    expect((await reader.readFile('bundle.dsse.json', 10, signal)).toString()).toBe('{}');
  });
});

describe('small files', () => {
  it('are refused over their limit, before they are read', async () => {
    await expect(openBundleDirectory(path).readFile('bundle.dsse.json', 1, signal)).rejects.toMatchObject({
      code: 'bundle/digest',
      message: expect.stringContaining('2 bytes, and 1 are allowed'),
    });
  });

  it('that are not there are named', async () => {
    await expect(openBundleDirectory(path).readFile('index.json', 1, signal)).rejects.toMatchObject({
      code: 'bundle/absent',
      message: expect.stringContaining(join(path, 'index.json')),
    });
  });
});

describe('links and special files', () => {
  it('are not followed, wherever they are', async () => {
    const outside = join(path, 'outside');
    mkdirSync(join(outside, 'sha256'), { recursive: true });
    writeFileSync(join(outside, 'sha256', hexOf(digest)), 'secret');
    symlinkSync(join(outside, 'sha256', hexOf(digest)), blob);
    symlinkSync(join(outside, 'sha256', hexOf(digest)), join(path, 'index.json'));
    const reader = openBundleDirectory(path);
    expect(await reader.sizeOf(digest, signal)).toBeUndefined();
    await expect(collect(reader.read(digest, 0, signal))).rejects.toMatchObject({ code: 'bundle/link' });
    await expect(reader.readFile('index.json', 10, signal)).rejects.toMatchObject({ code: 'bundle/link' });

    rmSync(join(path, 'blobs'), { recursive: true });
    symlinkSync(outside, join(path, 'blobs'));
    await expect(openBundleDirectory(path).sizeOf(digest, signal)).rejects.toMatchObject({ code: 'bundle/link' });
  });

  it('are not opened, so that a pipe does not block', async () => {
    execFileSync('mkfifo', [blob]);
    const reader = openBundleDirectory(path);
    expect(await reader.sizeOf(digest, signal)).toBeUndefined();
    await expect(collect(reader.read(digest, 0, signal))).rejects.toMatchObject({ code: 'bundle/link' });
  });
});

describe('system errors', () => {
  it('of a read become media/read', async () => {
    // Reading address 0 of a process fails with EIO, as a bad sector does.
    const chunks = streamFile('/proc/self/mem', 0, signal, 10);
    await expect(collect(chunks)).rejects.toMatchObject({
      code: 'media/read',
      message: expect.stringContaining('EIO'),
    });
  });

  it('of a device that went away become media/gone', () => {
    for (const code of ['ENODEV', 'ENXIO', 'ENOTCONN', 'ESTALE']) {
      expect(mediaError('/x', Object.assign(new Error(code), { code }))).toMatchObject({
        code: 'media/gone',
        disposition: 'wait',
      });
    }
  });

  it('of a damaged filesystem say so, though Node has no names for them', () => {
    for (const errno of [-74, -117]) {
      const code = `Unknown system error ${errno}`;
      expect(mediaError('/x', Object.assign(new Error(code), { code, errno }))).toMatchObject({
        code: 'media/read',
        message: expect.stringMatching(/^\/x can't be read: the filesystem of the medium is damaged/),
      });
    }
  });

  it('leave no file open', async () => {
    const opened = await openRegularFile(join(path, 'bundle.dsse.json'));
    expect(opened?.sizeBytes).toBe(2);
    await opened?.handle.close();
    expect(await openRegularFile(join(path, 'nothing', 'here'))).toBeUndefined();
  });
});
