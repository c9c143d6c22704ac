import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { unzstd } from '../../../../src/factory/layers/packed-file.ts';
import { seededBytes } from '../../../support/bundles/sample-image.ts';

const content = Buffer.concat([seededBytes('a', 200_000), Buffer.alloc(400_000, 'abc'), seededBytes('b', 1000)]);
const frame = zstdCompressSync(content);
/** As pzstd puts it before each frame. */
const skippable = Buffer.from([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4]);

async function* cut(bytes: Buffer, size: number) {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function unpacked(bytes: Buffer, size = 65536): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of unzstd(cut(bytes, size), 65536)) parts.push(part);
  return Buffer.concat(parts);
}

describe('unzstd', () => {
  it.each([1, 7, 1000, 65536, 10_000_000])(
    'unpacks all frames of data that comes in pieces of %i bytes',
    async (size) => {
      const two = Buffer.concat([skippable, frame, skippable, zstdCompressSync(Buffer.alloc(0)), frame]);
      const small = size < 1000 ? zstdCompressSync(content.subarray(199_000, 201_000)) : two;
      const expected = size < 1000 ? content.subarray(199_000, 201_000) : Buffer.concat([content, content]);
      expect((await unpacked(small, size)).equals(expected)).toBe(true);
    },
  );

  it('unpacks nothing to nothing', async () => {
    expect(await unpacked(Buffer.alloc(0))).toEqual(Buffer.alloc(0));
  });

  it.each([
    ['other bytes behind a frame', Buffer.concat([frame, Buffer.from('garbage')]), 'no zstd frame'],
    ['less than a magic number', Buffer.concat([frame, Buffer.from('ab')]), 'unexpected end of file'],
    ['a reserved block', Buffer.from('28b52ffd2000070000', 'hex'), 'block is malformed'],
    ['a block that is too large', Buffer.from('28b52ffd2000fcffff', 'hex'), 'block is malformed'],
  ])('refuses %s', async (_name, bytes, why) => {
    await expect(unpacked(bytes)).rejects.toThrow(why);
  });

  it('never takes a frame that is cut off for a whole one', async () => {
    const short = zstdCompressSync(seededBytes('c', 3000));
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: short.length - 1 }), async (length) => {
        await expect(unpacked(short.subarray(0, length))).rejects.toThrow();
      }),
    );
  });

  it('ends with an error or bytes for any input', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
        const begun = Buffer.concat([frame.subarray(0, 5), bytes]);
        await unpacked(begun).then(Buffer.isBuffer, (error: unknown) => expect(error).toBeInstanceOf(Error));
      }),
    );
  });
});
