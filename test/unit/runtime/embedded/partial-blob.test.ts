import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { openPartialBlob } from '../../../../src/runtime/embedded/blob-fetch.ts';
import { digestOf, seededBytes } from '../../../support/bundles/sample-image.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const bytes = seededBytes('partial', 1000);
const blob = { mediaType: 'application/octet-stream', digest: digestOf(bytes) as Digest, size: bytes.length };

const directory = folderForEach();
let path: string;

beforeEach(() => {
  path = join(directory, 'partial/blob');
});

async function* chunks(from: number, to: number, each = 70): AsyncIterable<Buffer> {
  for (let at = from; at < to; at += each) yield bytes.subarray(at, Math.min(at + each, to));
}

describe('a partial blob', () => {
  it('continues after it is opened again, also with a registry that always starts at the first byte', async () => {
    const first = await openPartialBlob(path, blob);
    await first.append(0, chunks(0, 333));
    await first.close();
    const second = await openPartialBlob(path, blob);
    expect(second.sizeBytes()).toBe(333);
    await second.append(0, chunks(0, 700));
    expect(second.sizeBytes()).toBe(700);
    await second.append(700, chunks(700, 1000));
    await second.finish(join(directory, 'blobs/done'));
    await second.close();
    expect(readFileSync(join(directory, 'blobs/done')).equals(bytes)).toBe(true);
    expect(existsSync(path)).toBe(false);
  });

  it('is deleted when its digest is wrong', async () => {
    const partial = await openPartialBlob(path, { ...blob, digest: digestOf(Buffer.from('other')) as Digest });
    await partial.append(0, chunks(0, 1000));
    const final = join(directory, 'blobs/done');
    await expect(partial.finish(final)).rejects.toMatchObject({ code: 'runtime/digest-mismatch' });
    await partial.close();
    expect([existsSync(path), existsSync(final)]).toEqual([false, false]);
  });

  it('accepts at most the announced number of bytes', async () => {
    const partial = await openPartialBlob(path, { ...blob, size: 999 });
    await expect(partial.append(0, chunks(0, 1000))).rejects.toMatchObject({ code: 'runtime/digest-mismatch' });
    await partial.close();
    expect(existsSync(path)).toBe(false);
  });
});
