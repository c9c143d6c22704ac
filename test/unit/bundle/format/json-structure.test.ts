import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonExcess } from '../../../../src/bundle/format/json.ts';

const MOST = { items: 1_000_000, depth: 1_000 };
const excess = (text: string, limits: Partial<typeof MOST> = {}) =>
  jsonExcess(Buffer.from(text), { ...MOST, ...limits });

describe('jsonExcess', () => {
  it.each([
    ['[1,2,3]', 3],
    ['{"a":1,"b":2}', 4],
    ['[[],[],{}]', 6],
    ['"[{,:"', 0],
    ['["a\\"[,","\\\\",[]]', 4],
    [' 1 ', 0],
  ])('%s has %i items', (text, items) => {
    expect(excess(text, { items })).toBeUndefined();
    if (items > 0) expect(excess(text, { items: items - 1 })).toBe(`more than ${items - 1} items`);
  });

  it.each([
    ['[[1],[[2]]]', 3],
    ['{"a":{"b":[]}}', 3],
    ['["[[[["]', 1],
  ])('%s has %i levels', (text, depth) => {
    expect(excess(text, { depth })).toBeUndefined();
    expect(excess(text, { depth: depth - 1 })).toBe(`more than ${depth - 1} levels of objects and arrays`);
  });

  it('counts at least every value that a parser makes, apart from the outermost', () => {
    const valuesOf = (value: unknown): number =>
      typeof value === 'object' && value !== null
        ? Object.values(value).reduce((sum: number, one) => sum + valuesOf(one), 1)
        : 1;
    fc.assert(
      fc.property(fc.json(), (text) => {
        const values = valuesOf(JSON.parse(text)) - 1;
        if (values > 0) expect(excess(text, { items: values - 1 })).toBeDefined();
        // Brackets, commas and colons: at most three for each.
        expect(excess(text, { items: 3 * values + 1 })).toBeUndefined();
      }),
    );
  });

  it('ends at the end of the text, for any text', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        jsonExcess(bytes, { items: 5, depth: 5 });
      }),
    );
  });
});
