import { expect, it } from 'vitest';
import { PERSON_ACTIONS } from '../../../../src/domain/report/actions.ts';
import { EXIT_CODES, verdictOf } from '../../../../src/domain/report/verdict.ts';

const wait = { code: 'A-01', message: 'it is loaded' };
const need = { code: 'M-12', message: 'a blob is bad' };

it.each([
  // idle, at work; idle with a need, at work with a need
  ['none', 'good works needs-person needs-person', 'waits-for-admin works needs-person needs-person'],
  ['remove', 'good works needs-person needs-person', 'waits-for-admin works needs-person needs-person'],
  ['wait', 'works works needs-person needs-person', 'waits-for-admin works needs-person needs-person'],
  ['leave-in', 'works works needs-person needs-person', 'waits-for-admin works needs-person needs-person'],
  ['plug-in', 'needs-person needs-person needs-person needs-person', undefined],
  ['call-support', 'failed failed failed failed', undefined],
] as const)('the verdict with the advice %s: %s', (action, expected, whileAdmin) => {
  const verdicts = (waitsForAdmin: readonly (typeof wait)[]) =>
    [[], [need]].flatMap((needsPerson) =>
      (['idle', 'preloading'] as const).map((operation) =>
        verdictOf({
          advice: { action, words: '', text: '' },
          needsPerson,
          waitsForAdmin: [...waitsForAdmin],
          operation,
        }),
      ),
    );
  expect(verdicts([]).join(' ')).toBe(expected);
  expect(verdicts([wait]).join(' ')).toBe(whileAdmin ?? expected);
});

it('knows all advice, and has the exit codes 0 to 3', () => {
  expect(PERSON_ACTIONS).toHaveLength(6);
  expect(EXIT_CODES).toEqual({ good: 0, 'waits-for-admin': 0, works: 1, 'needs-person': 2, failed: 3 });
});
