import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonEntries } from '../../../src/platform/json-entries.ts';

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

  const LIST = {
    kind: 'PartialObjectMetadataList',
    metadata: { resourceVersion: '9', 'a"]}\\': {} },
    items: [{ a: '}]{["\\' }, { b: [{ c: [] }, 'ü'] }, {}],
  };

  it.each([1, 2, 3, 7, 10_000])('are those of the array in a document, from chunks of %i bytes', async (size) => {
    for (const list of [LIST, { items: [] }, { items: null, metadata: {} }]) {
      const items: unknown[] = [];
      const around: Buffer[] = [];
      const chunks = inParts(JSON.stringify(list), size);
      for await (const { bytes } of jsonEntries(chunks, 1_000, around)) items.push(JSON.parse(bytes.toString()));
      expect(items).toEqual(list.items ?? []);
      expect(JSON.parse(Buffer.concat(around).toString())).toEqual({ ...list, items: list.items && [] });
    }
  });

  it('leave out the end of a large one in a document, which has no end itself', async () => {
    const read = async (text: string) => {
      const found: boolean[] = [];
      for await (const { isWhole } of jsonEntries(inParts(text, 7), 100, [])) found.push(isWhole);
      return found;
    };
    expect(await read(`{"items":[{},{"a":"${'x'.repeat(100)}"}]}`)).toEqual([true, false]);
    await expect(read(`{"items":[{}],"a":"${'x'.repeat(100)}`)).rejects.toThrow('more than 100 bytes beside');
  });
});
