import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { beforeEach, describe, expect, it } from 'vitest';
import { streamPacked } from '../../../../src/factory/layers/packed-file.ts';
import { temporaryFolder } from '../../../support/files/temporary-folder.ts';

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
});

describe('streamPacked', () => {
  it.each([
    ['gzip', gzipSync],
    ['zstd', zstdCompressSync],
    ['nothing', (bytes: Buffer) => bytes],
  ])('stops in the middle of what few bytes unpack to: %s', async (_name, pack) => {
    const file = { path: join(folder, 'file'), what: 'it' };
    writeFileSync(file.path, pack(Buffer.alloc(32 * 1024 * 1024)));
    const stop = new AbortController();
    let parts = 0;
    const onTar = () => {
      parts += 1;
      if (parts === 2) stop.abort(new Error('interrupted'));
    };
    await expect(streamPacked(file, { onTar }, stop.signal)).rejects.toThrow('interrupted');
    expect(parts).toBe(2);
  });
});
