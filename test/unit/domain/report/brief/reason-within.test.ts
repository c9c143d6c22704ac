import fc, { type Arbitrary } from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Reason } from '../../../../../src/domain/model/reason.ts';
import { reasonWithin } from '../../../../../src/domain/report/brief.ts';
import { reasonText } from '../../../../../src/domain/report/reasons/reason-text.ts';
import { type Conclusion, EVERY_REASON } from '../../../../support/report/every-reason.ts';

describe('reasonWithin', () => {
  it.each(Object.keys(EVERY_REASON) as Conclusion['code'][])(
    '%s: whole sentences that fit, what is wrong first',
    (code) => {
      const { data, says }: { data: Arbitrary<unknown>; says: RegExp } = EVERY_REASON[code];
      fc.assert(
        fc.property(data, fc.integer({ min: 140, max: 200 }), (values, maxLength) => {
          const reason = { code, data: values } as Reason;
          const text = reasonWithin(reason, maxLength);
          expect(text.length).toBeLessThanOrEqual(maxLength);
          expect(text.slice(0, 80)).toMatch(says);
          // All of it, or sentences with an end: nothing is cut off at the end.
          if (text !== reasonText(reason)) expect(text).toMatch(/[.]$/);
        }),
      );
    },
  );

  it('keeps what an adapter says in whole sentences, and shortens only one that is too long alone', () => {
    const fault = (message: string) => reasonWithin({ code: 'x/y', message });
    expect(fault('Disk is full. Make room')).toBe('Disk is full. Make room');
    const first = `The pull of ${'a'.repeat(90)} failed. Look at its registry.`;
    expect(fault(`${first} ${'Details of no use to a technician, '.repeat(6)}and more.`)).toBe(first);
    expect(fault(`rpc error: ${'long '.repeat(90)}`)).toMatch(/^rpc error: .* long… See 'journalctl -u stickpin'\.$/);
  });
});
