import fc, { type Arbitrary } from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import type { Reason } from '../../../../src/domain/model/reason.ts';
import type { Conclusion } from '../../../../src/domain/report/entries.ts';
import { headOf, statusText, textAtNode } from '../../../../src/domain/report/line.ts';
import { reasonLine } from '../../../../src/domain/report/reasons/reason-text.ts';
import { cutAtWord } from '../../../../src/platform/plain-text.ts';
import { EVERY_REASON } from '../../../support/report/every-reason.ts';

describe('the line about a reason', () => {
  it.each(Object.keys(EVERY_REASON) as Conclusion['code'][])('%s: says what is wrong first in STATUS', (code) => {
    const { data, says }: { data: Arbitrary<unknown>; says: RegExp } = EVERY_REASON[code];
    fc.assert(
      fc.property(data, (values) => {
        const line = reasonLine({ code, data: values } as Reason);
        const status = statusText(line);
        expect(status.slice(headOf(line).length).slice(0, 80)).toMatch(says);
      }),
    );
  });

  it('has what an adapter says, cut at a word where that is too long, and the meaning of its code at the node', () => {
    const line = (message: string) => reasonLine({ code: 'runtime/pull-failed', message });
    expect(statusText(line('Disk is full. Make room'))).toBe('WAIT (R-07): Disk is full. Make room.');
    expect(statusText(line(`rpc error: ${'long '.repeat(90)}`))).toMatch(/^WAIT \(R-07\): rpc error: .* long…$/);
    expect(textAtNode(line("rpc error: run 'crictl x'"))).toBe('The runtime could not pull an image.');
  });
});

it('a STATUS line has at most 200 characters and says what is the case, however long its notes are', () => {
  const notes = ['first '.repeat(18).trim(), 'Short', 'second '.repeat(30).trim()];
  const says = () => ({ what: `it is ${'so '.repeat(90)}`, notes });
  const status = statusText({ does: 'call-support', code: 'store/damaged', says });
  expect(status.length).toBeLessThanOrEqual(200);
  expect(status).toMatch(/^CALL SUPPORT \(S-01\): it is so .*… (?:first )+first\. Short\.$/);
});

const FAULT = "the key file /etc/stickpin/keys.d/a.pub can't be read: i/o error";

test.each([
  ['a text that fits stays as it is', `${FAULT} (EIO, read)`, 80, `${FAULT} (EIO, read)`],
  [
    'another one is cut at a word',
    'the release (of April, by factory) is not read',
    44,
    'the release (of April, by factory) is not…',
  ],
  [
    'a command is left out whole',
    "the release is retired. To use it again, run 'stickpin activate ocp@4.13.7'",
    70,
    'the release is retired. To use it again…',
  ],
  [
    'a quoted name is left out whole',
    'the folder is named "the stick may go now", which is odd',
    40,
    'the folder is named…',
  ],
])('%s', (_what, text, maxLength, short) => {
  expect(cutAtWord(text, maxLength)).toBe(short);
});
