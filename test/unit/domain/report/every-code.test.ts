import fc, { type Arbitrary } from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Reason } from '../../../../src/domain/model/reason.ts';
import { CODES, REASONS } from '../../../../src/domain/report/codes.ts';
import type { Conclusion } from '../../../../src/domain/report/entries.ts';
import { EXPLANATIONS } from '../../../../src/domain/report/explain.ts';
import { FAULTS } from '../../../../src/domain/report/reasons/faults.ts';
import { EVERY_HOLD, USUAL_HOLDS } from '../../../support/report/every-hold.ts';
import { EVERY_REASON } from '../../../support/report/every-reason.ts';
import { REASON_SAMPLES } from '../../../support/report/reason-samples.ts';
import { type Subject, screensOf, subjectOfFault } from '../../../support/report/screens.ts';

function subjectOfReason(reason: Reason): Subject {
  if ('message' in reason) return { kind: 'obstacle', reason };
  if (reason.code.startsWith('bundle/') && reason.code !== 'bundle/blob-missing') return { kind: 'refusal', reason };
  const { kind } = reason.data as { readonly kind?: string };
  if (reason.code === 'trust/approval' && kind !== 'adopted') return { kind: 'approval', reason };
  if (reason.code.startsWith('trust/') && kind === 'found') return { kind: 'refusal', reason };
  return { kind: 'reason', reason };
}

/** A code with each kind of its data. */
function subjectsOf(code: string): readonly Subject[] {
  if (code in FAULTS) return [subjectOfFault(code)];
  const samples = code in REASONS ? REASON_SAMPLES[code as Conclusion['code']] : [];
  const holds = USUAL_HOLDS.filter((one) => one.code === code);
  return [
    ...samples.map((data) => subjectOfReason({ code, data } as Reason)),
    ...holds.map(({ hold }) => ({ kind: 'hold' as const, hold })),
  ];
}

it('every code has the texts of golden/every-code.txt on each screen; a number never changes', async () => {
  const blocks = EXPLANATIONS.map(({ code, reason, means, words, next }) => {
    const said = [`${code} ${reason}`, `  means: ${means}`, `  stick: ${words}`, `  administrator: ${next}`];
    const screens = subjectsOf(reason).map((subject) => {
      const shown = Object.entries(screensOf(subject)).filter(([, text]) => text !== '');
      return shown.map(([screen, text], at) => `  ${at === 0 ? '- ' : '  '}${screen}: ${text}`).join('\n');
    });
    return [...said, ...screens, ''].join('\n');
  });
  await expect(blocks.join('\n')).toMatchFileSnapshot('golden/every-code.txt');
});

const ANY_SUBJECT: readonly (readonly [string, Arbitrary<Subject>])[] = [
  ...Object.entries(EVERY_REASON).map(([code, { data }]: [string, { readonly data: Arbitrary<unknown> }]) => {
    return [code, data.map((one) => subjectOfReason({ code, data: one } as Reason))] as const;
  }),
  ...[...new Set(EVERY_HOLD.map(({ code }) => code))].map((code) => {
    const holds = EVERY_HOLD.filter((one) => one.code === code).map(({ hold }) => ({ kind: 'hold' as const, hold }));
    return [code, fc.constantFrom(...holds)] as const;
  }),
  ...Object.keys(FAULTS).map((code) => [code, fc.constant(subjectOfFault(code))] as const),
];

const COMMAND = /'(?:sudo )?(?:stickpin|systemctl|journalctl|crio|kubectl|timedatectl|crictl) /;

/** A value that is none, two full stops, or a word twice; one of the samples repeats `long`. */
const FAULTY = /undefined|NaN|\[object|\.\. |\b(?!long\b)([a-z]{2,}) \1\b/;

describe('each screen, with every kind of data', () => {
  it('is tested for every code', () => {
    const tested = new Set(ANY_SUBJECT.map(([code]) => code));
    expect(CODES.map(({ code }) => code).filter((code) => !tested.has(code))).toEqual([]);
  });

  it.each(ANY_SUBJECT)('%s', (_, subjects) => {
    fc.assert(
      fc.property(subjects, (subject) => {
        const { STATUS, login, status = '', list, elsewhere } = screensOf(subject);
        expect(STATUS?.length ?? 0).toBeLessThanOrEqual(200);
        expect(login ?? '').not.toMatch(COMMAND);
        const texts = elsewhere === undefined ? [STATUS, login, status] : STATUS === undefined ? [] : [STATUS];
        for (const text of texts) {
          expect(text).toMatch(/^[A-Z][A-Z ]+(?: \([A-Z]-\d\d\))?: \S.*[.!?…]$/);
          expect(text).not.toMatch(FAULTY);
        }
        expect(list ?? '').not.toMatch(FAULTY);
        // What STATUS cuts is whole here.
        const [whole = ''] = status.split(' | ');
        expect(whole).not.toMatch(/…$/);
      }),
      { numRuns: 20 },
    );
  });
});
