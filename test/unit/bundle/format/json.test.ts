import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../../../src/bundle/format/json.ts';
import { limits } from '../../../../src/bundle/limits.ts';

const schema = v.strictObject({ list: v.array(v.number()) });
const parse = (text: string, maxItems?: number) =>
  parseJson(Buffer.from(text), schema, 'contents.json', 'bundle/contents', maxItems);

describe('parseJson', () => {
  it('refuses a document with more items than allowed before it is parsed, and says what to do', () => {
    expect(parse('{"list":[1,2,3]}', 6)).toEqual({ list: [1, 2, 3] });
    // No JSON: a parser would say so.
    expect(() => parse('{"list":[1,2,3,,]}', 6)).toThrow(
      expect.objectContaining({
        code: 'bundle/contents',
        disposition: 'reject',
        message:
          'contents.json is too large to be read: it has more than 6 items; make the bundle again, or spread its images over several bundles',
      }),
    );
  });

  it('refuses objects and arrays too deep within each other', () => {
    const deep = '['.repeat(limits.jsonDepth + 1) + ']'.repeat(limits.jsonDepth + 1);
    expect(() => parse(`{"list":${deep}}`)).toThrow(/more than 64 levels of objects and arrays/);
  });

  it.each([
    ['a value', `{"list":"${'x'.repeat(1_000_000)}"}`],
    ['the name of a member', `{"list":[],"${'x'.repeat(1_000_000)}":1}`],
  ])('quotes no more than a line of %s that is wrong', (_what, text) => {
    const message = String(
      (() => {
        try {
          return parse(text);
        } catch (error) {
          return (error as Error).message;
        }
      })(),
    );
    expect(message).toMatch(/^contents\.json: .*x…/);
    expect(message.length).toBeLessThan(700);
  });
});
