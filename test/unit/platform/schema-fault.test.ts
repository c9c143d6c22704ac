import * as v from 'valibot';
import { expect, it } from 'vitest';
import { schemaFault } from '../../../src/platform/schema-fault.ts';

const schema = v.strictObject({
  text: v.optional(v.string()),
  count: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(9))),
  word: v.optional(v.picklist(['x', 'y', 'z'])),
  list: v.optional(v.array(v.string())),
  either: v.optional(v.union([v.literal('auto'), v.number()])),
  form: v.optional(v.pipe(v.string(), v.regex(/^a$/))),
  table: v.optional(v.object({ must: v.string() })),
  flag: v.optional(v.boolean()),
  short: v.optional(v.pipe(v.string(), v.nonEmpty(), v.maxLength(3))),
  path: v.optional(v.pipe(v.string(), v.startsWith('/'))),
  own: v.optional(v.pipe(v.string('must be a colour'))),
  url: v.optional(v.pipe(v.string(), v.url())),
});

const faultOf = (value: unknown) => {
  const [issue] = v.safeParse(schema, value).issues ?? [];
  return issue === undefined ? 'none' : `${v.getDotPath(issue)} ${schemaFault(issue, { object: 'a table' })}`;
};

it.each([
  [{ text: 5 }, 'text must be text, and is 5'],
  [{ text: ['a'] }, 'text must be text, and is a list'],
  [{ count: '5' }, 'count must be a number, and is "5"'],
  [{ count: 1.5 }, 'count must be a whole number, and is 1.5'],
  [{ count: 0 }, 'count must be at least 1, and is 0'],
  [{ count: 10 }, 'count must be at most 9, and is 10'],
  [{ word: 'a' }, 'word must be "x", "y" or "z", and is "a"'],
  [{ list: {} }, 'list must be a list, and is a table'],
  [{ list: Object.create(null) }, 'list must be a list, and is a table'],
  [{ list: null }, 'list must be a list, and is null'],
  [{ list: ['a', 1] }, 'list.1 must be text, and is 1'],
  [{ either: true }, 'either must be "auto" or a number, and is true'],
  [{ form: 'b' }, 'form must be of the form /^a$/, and is "b"'],
  [{ table: 1 }, 'table must be a table, and is 1'],
  [{ table: {} }, 'table.must is missing'],
  [{ flag: 'true' }, 'flag must be true or false, and is "true"'],
  [{ short: '' }, 'short must not be empty'],
  [{ short: 'abcd' }, 'short must be at most 3 long, and is 4 long'],
  [{ path: 'a' }, 'path must be text that begins with "/", and is "a"'],
  [{ own: 1 }, 'own must be a colour'],
  [{ url: 'x' }, 'url is not valid: "x"'],
  [{ more: 1 }, 'more is not known'],
])('says what is wrong with %j', (value, expected) => {
  expect(faultOf(value)).toBe(expected);
});
