import { describe, expect, it } from 'vitest';
import type { Digest } from '../../../src/domain/model/digest.ts';
import { digestOf } from '../../../src/platform/digest.ts';
import { type Allocate, oneBuffer } from '../../../src/platform/files/file-access.ts';
import type { BlobSource } from '../../../src/ports/blobs.ts';
import { CheckedSource } from '../../../src/registry/checked-source.ts';

const never = new AbortController().signal;
const CHUNK_BYTES = 24;
const BLOB = Buffer.from('the quick brown fox jumps over the lazy dog, twice or more often');

/** A file that is read in small chunks, into the buffers that the reader gives. */
function fileSource(file: { bytes: Buffer; sizeBytes?: number }): BlobSource {
  return {
    sizeOf: async () => file.sizeBytes ?? file.bytes.length,
    async *read(_digest, startByte, _signal, allocate = (sizeBytes) => Buffer.alloc(sizeBytes)) {
      for (let at = startByte; at < file.bytes.length; ) {
        const chunk = allocate(Math.min(CHUNK_BYTES, file.bytes.length - at));
        at += file.bytes.copy(chunk, 0, at);
        yield chunk;
      }
    },
  };
}

/** What arrives, copied at once since a buffer is used again, and the error at the end. */
async function received(source: BlobSource, digest: Digest, startByte = 0, allocate?: Allocate) {
  const parts: Buffer[] = [];
  try {
    for await (const chunk of source.read(digest, startByte, never, allocate)) parts.push(Buffer.from(chunk));
  } catch (error) {
    return { bytes: Buffer.concat(parts), error };
  }
  return { bytes: Buffer.concat(parts), error: undefined };
}

function checkedFile(file: { bytes: Buffer; sizeBytes?: number }, stamp = () => 'the same') {
  return new CheckedSource(fileSource(file), async () => stamp(), never);
}

describe('CheckedSource', () => {
  it('sends a whole blob, and a part of it, through one buffer', async () => {
    const source = checkedFile({ bytes: BLOB });
    let allocated = 0;
    const buffers = oneBuffer();
    const allocate: Allocate = (sizeBytes) => {
      allocated += 1;
      return buffers(sizeBytes);
    };
    expect(await received(source, digestOf(BLOB), 0, allocate)).toEqual({ bytes: BLOB, error: undefined });
    expect(allocated).toBe(Math.ceil(BLOB.length / CHUNK_BYTES));
    expect(await received(source, digestOf(BLOB), 20, allocate)).toEqual({
      bytes: BLOB.subarray(20),
      error: undefined,
    });
  });

  it('keeps the last chunk of a damaged blob back', async () => {
    const bytes = Buffer.from(BLOB);
    bytes[1] = 0;
    const { bytes: sent, error } = await received(checkedFile({ bytes }), digestOf(BLOB));
    expect(sent).toEqual(bytes.subarray(0, BLOB.length - (BLOB.length % CHUNK_BYTES)));
    expect(error).toMatchObject({ code: 'media/blob-damaged' });
  });

  it('sends nothing of a damaged blob when a part is asked for', async () => {
    const bytes = Buffer.from(BLOB);
    bytes[1] = 0;
    const { bytes: sent, error } = await received(checkedFile({ bytes }), digestOf(BLOB), 20);
    expect(sent).toHaveLength(0);
    expect(error).toMatchObject({ code: 'media/blob-damaged' });
  });

  it('keeps the last chunk of a part back when the file changed meanwhile', async () => {
    const stamps = ['first', 'second'];
    const source = checkedFile({ bytes: BLOB }, () => stamps.shift() ?? 'third');
    const { bytes: sent, error } = await received(source, digestOf(BLOB), 20);
    expect(sent.length).toBeLessThan(BLOB.length - 20);
    expect(error).toMatchObject({ code: 'media/blob-damaged' });
  });

  it.each([
    { what: 'longer', bytes: Buffer.concat([BLOB, Buffer.from('!')]) },
    { what: 'shorter', bytes: BLOB.subarray(0, -1) },
    { what: 'empty', bytes: Buffer.alloc(0) },
  ])('refuses a file that became $what after its size was read', async ({ bytes }) => {
    const { bytes: sent, error } = await received(checkedFile({ bytes, sizeBytes: BLOB.length }), digestOf(BLOB));
    expect(sent.equals(BLOB)).toBe(false);
    expect(error).toMatchObject({ code: 'media/blob-damaged' });
  });

  it('sends an empty blob', async () => {
    const bytes = Buffer.alloc(0);
    expect(await received(checkedFile({ bytes }), digestOf(bytes))).toEqual({ bytes, error: undefined });
  });
});
