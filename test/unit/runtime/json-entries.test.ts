import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonEntries } from '../../../src/runtime/docker/json-entries.ts';

async function* inParts(text: string, partBytes: number): AsyncGenerator<Buffer> {
  const all = Buffer.from(text);
  for (let at = 0; at < all.length; at += partBytes) yield all.subarray(at, at + partBytes);
}

async function read(text: string, { partBytes = 7, maxBytes = 1_000_000 } = {}): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const { bytes, isWhole } of jsonEntries(inParts(text, partBytes), maxBytes))
    found.push(isWhole ? JSON.parse(bytes.toString()) : `${bytes}…`);
  return found;
}

const objects = fc.array(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), { maxLength: 6 });

describe('the entries of an answer', () => {
  it('are those of the array, or of the stream, however it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(objects, fc.integer({ min: 1, max: 50 }), async (all, partBytes) => {
        const wanted: unknown = JSON.parse(JSON.stringify(all));
        expect(await read(JSON.stringify(all), { partBytes })).toEqual(wanted);
        expect(await read(JSON.stringify(all, undefined, 2), { partBytes })).toEqual(wanted);
        expect(await read(all.map((one) => JSON.stringify(one)).join('\n'), { partBytes })).toEqual(wanted);
      }),
    );
  });

  it('leave out the end of a large one only', async () => {
    const text = JSON.stringify([{ a: 1 }, { Id: 'big', text: 'x'.repeat(100) }, { b: 2 }]);
    expect(await read(text, { maxBytes: 12 })).toEqual([{ a: 1 }, '{"Id":"big",…', { b: 2 }]);
  });

  it.each(['null', '', '[]', '[1, "a{"]'])('are none in %j', async (text) => {
    expect(await read(text)).toEqual([]);
  });

  it.each(['[{"a":1}', '[{"a":', '{"a"'])('of %j, which ends early, are refused', async (text) => {
    await expect(read(text)).rejects.toThrow('ends early');
  });
});
