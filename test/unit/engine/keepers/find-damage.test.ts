import { expect, it } from 'vitest';
import { findBadBlob } from '../../../../src/engine/keepers/layer-keeper.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { newBuffer } from '../../../../src/platform/files/file-access.ts';
import type { BlobCopy } from '../../../../src/ports/blobs.ts';

const LAYER = Buffer.from('the bytes of a layer');
const { signal } = new AbortController();

/** A copy that is read byte by byte, and the memory that it was read into. */
function copyOf(bytes: Buffer) {
  const memory = new Set<ArrayBufferLike>();
  const copy: BlobCopy = {
    label: 'sdb1',
    isTrusted: true,
    async *read(_startByte, _signal, allocate = newBuffer) {
      for (const byte of bytes) {
        const chunk = allocate(1).fill(byte);
        memory.add(chunk.buffer);
        yield chunk;
      }
    },
    distrust: () => undefined,
  };
  return { copy, memory };
}

it('reads a copy into one buffer, and another copy into another one', async () => {
  const [first, second] = [copyOf(LAYER), copyOf(Buffer.from('the bytes of a lawyer'))];
  const copies = new Map([
    [digestOf(LAYER), first],
    [digestOf('other'), second],
  ]);
  const source = {
    copiesOf: async (digest: string) => [...copies].flatMap(([of, { copy }]) => (of === digest ? [copy] : [])),
  };
  const bad = await findBadBlob([...copies.keys()], source, signal);
  expect(bad).toMatchObject({ kind: 'damaged', digest: digestOf('other') });
  expect([first.memory.size, second.memory.size]).toEqual([1, 1]);
  expect([...first.memory][0]).not.toBe([...second.memory][0]);
});
