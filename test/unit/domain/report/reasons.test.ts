import fc, { type Arbitrary } from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import type { Reason } from '../../../../src/domain/model/reason.ts';
import { type Conclusion, shortened } from '../../../../src/domain/report/fitted.ts';
import { reasonText, reasonWithin, remedyFor } from '../../../../src/domain/report/reasons/reason-text.ts';
import { EVERY_REASON } from '../../../support/report/every-reason.ts';
import { REASON_SAMPLES } from '../../../support/report/reason-samples.ts';

/** The text of a reason, and each shorter form of it, by its longest length. */
function formsOf(reason: Reason): string[] {
  const whole = reasonText(reason);
  const brief = [200, 140].map((length) => [length, reasonWithin(reason, length)] as const);
  return [`  ${whole}`, ...brief.filter(([, text]) => text !== `${whole}.`).map(([at, text]) => `  ${at}: ${text}`)];
}

it('every reason has the sentences of golden/reasons.txt, whole and in a STATUS line', async () => {
  const blocks = Object.entries(REASON_SAMPLES).map(([code, samples]) => {
    const forms = samples.map((data) => formsOf({ code, data } as Reason).join('\n'));
    const remedy = remedyFor(code, 'ocp@4.13.7');
    return [code, ...forms, `  What to do: ${remedy ?? 'nothing'}`, ''].join('\n');
  });
  await expect(blocks.join('\n')).toMatchFileSnapshot('golden/reasons.txt');
});

describe('reasonWithin', () => {
  it.each(Object.keys(EVERY_REASON) as Conclusion['code'][])(
    '%s: whole sentences that fit, what is wrong first',
    (code) => {
      const { data, says }: { data: Arbitrary<unknown>; says: RegExp } = EVERY_REASON[code];
      fc.assert(
        fc.property(data, fc.integer({ min: 140, max: 200 }), (values, maxLength) => {
          const text = reasonWithin({ code, data: values } as Reason, maxLength);
          expect(text.length).toBeLessThanOrEqual(maxLength);
          expect(text.slice(0, 80)).toMatch(says);
          expect(text).toMatch(/[.]$/);
        }),
      );
    },
  );

  it('keeps what an adapter says in whole sentences, and shortens only one that is too long alone', () => {
    const fault = (message: string) => reasonWithin({ code: 'x/y', message });
    expect(fault('Disk is full. Make room')).toBe('Disk is full. Make room.');
    const first = `The pull of ${'a'.repeat(90)} failed. Look at its registry.`;
    expect(fault(`${first} ${'Details of no use to a technician, '.repeat(6)}and more.`)).toBe(first);
    expect(fault(`rpc error: ${'long '.repeat(90)}`)).toMatch(/^rpc error: .* long… See 'journalctl -u stickpin'\.$/);
  });
});

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
    'a command is left out whole',
    "the release is retired. To use it again, run 'stickpin activate ocp@4.13.7'",
    70,
    'the release is retired. To use it again…',
  ],
  [
    'the rest is cut at the end of a clause',
    `${FAULT} (EIO, read)`,
    60,
    "the key file /etc/stickpin/keys.d/a.pub can't be read…",
  ],
])('%s', (_what, text, maxLength, short) => {
  expect(shortened(text, maxLength)).toBe(short);
});
