import { expect, test } from 'vitest';
import { shortened } from '../../../../../src/domain/report/fitted.ts';

const FAULT = "the key file /etc/stickpin/keys.d/a.pub can't be read: i/o error";

test.each([
  ['a text that fits stays as it is', `${FAULT} (EIO, read)`, 80, `${FAULT} (EIO, read)`],
  ['the call of a system error goes first', `${FAULT} (EIO, open '/etc/stickpin/keys.d/a.pub')`, 80, `${FAULT} (EIO)`],
  [
    'other words in parentheses are cut at the end alone',
    'the release (of April, by factory) is not read',
    44,
    'the release (of April, by factory) is not…',
  ],
  [
    'the rest is cut at the end of a clause',
    `${FAULT} (EIO, read)`,
    60,
    "the key file /etc/stickpin/keys.d/a.pub can't be read…",
  ],
])('%s', (_what, text, maxLength, told) => {
  expect(shortened(text, maxLength)).toBe(told);
});
