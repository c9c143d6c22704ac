import { describe, expect, it } from 'vitest';
import { AppError } from '../../../src/platform/app-error.ts';
import { newBuffer } from '../../../src/platform/files/file-access.ts';
import type { BlobCopy, BlobSource } from '../../../src/ports/blobs.ts';
import { createBlobUnion } from '../../../src/registry/blob-union.ts';
import { digestOf } from '../../support/daemon/scenario.ts';

const { signal } = new AbortController();
const gone = () => new AppError({ code: 'media/gone', message: 'it is not there', disposition: 'wait' });
/** A blob that goes away when its first bytes were read. */
const BROKEN = 'broken';
const source = (blobs: Readonly<Record<string, string>>): BlobSource => ({
  sizeOf: async (digest) => Object.entries(blobs).find(([name]) => digestOf(name) === digest)?.[1].length,
  read: async function* (digest, startByte, _signal, allocate = newBuffer) {
    const bytes = Object.entries(blobs).find(([name]) => digestOf(name) === digest)?.[1];
    if (bytes === undefined) throw gone();
    const chunk = allocate(bytes.length - startByte);
    yield chunk.subarray(0, chunk.write(bytes.slice(startByte)));
    if (bytes === BROKEN) throw gone();
  },
});
const onMedia = source({ b: 'media!', both: 'media!', off: 'media!' });
const union = createBlobUnion({
  onDisk: [source({ a: 'local', both: 'local', off: BROKEN })],
  media: {
    ...onMedia,
    onChange: (listener) => {
      listener();
      return () => undefined;
    },
    copiesOf: async (digest) => {
      const read: BlobCopy['read'] = (startByte, inner, allocate) => onMedia.read(digest, startByte, inner, allocate);
      const copy = { label: 'sdb1', isTrusted: true, read, distrust: () => undefined };
      return (await onMedia.sizeOf(digest, signal)) === undefined ? [] : [copy];
    },
  },
});

async function read(name: string, startByte = 0): Promise<string> {
  let text = '';
  for await (const chunk of union.read(digestOf(name), startByte, signal)) text += chunk.toString();
  return text;
}

describe('blob union', () => {
  it('reads each blob from the first source that has it', async () => {
    expect(await union.sizeOf(digestOf('a'), signal)).toBe(5);
    expect(await union.sizeOf(digestOf('b'), signal)).toBe(6);
    expect(await union.sizeOf(digestOf('both'), signal)).toBe(5);
    expect([await read('a'), await read('b', 2), await read('both')]).toEqual(['local', 'dia!', 'local']);
  });

  it('has no size for an unknown blob, and a read fails with advice', async () => {
    expect(await union.sizeOf(digestOf('c'), signal)).toBeUndefined();
    await expect(read('c')).rejects.toMatchObject({ code: 'media/gone', disposition: 'wait' });
  });

  it('does not continue with another source after an interruption, because bytes would come twice', async () => {
    const chunks: string[] = [];
    const reading = async () => {
      for await (const chunk of union.read(digestOf('off'), 0, signal)) chunks.push(chunk.toString());
    };
    await expect(reading()).rejects.toMatchObject({ code: 'media/gone' });
    expect(chunks).toEqual([BROKEN]);
  });

  it('lists each copy with its location, in the order of use', async () => {
    const labels = async (name: string) => (await union.copiesOf(digestOf(name), signal)).map(({ label }) => label);
    expect(await labels('both')).toEqual(["this node's own disk", 'sdb1']);
    expect(await labels('b')).toEqual(['sdb1']);
    expect(await labels('c')).toEqual([]);
  });

  it('reads a copy into the buffer of the caller', async () => {
    const buffer = Buffer.alloc(8);
    for (const name of ['a', 'b']) {
      const [copy] = await union.copiesOf(digestOf(name), signal);
      for await (const chunk of copy?.read(0, signal, () => buffer) ?? []) expect(chunk.buffer).toBe(buffer.buffer);
    }
  });

  it('changes when the media change', () => {
    let changes = 0;
    union.onChange(() => {
      changes += 1;
    });
    expect(changes).toBe(1);
  });
});
