import { expect, it } from 'vitest';
import { PERSON_ACTIONS } from '../../../../src/domain/report/actions.ts';
import { VERDICTS, verdictOf } from '../../../../src/domain/report/verdict.ts';

const need = { code: 'M-12', message: 'a blob is bad' };

it.each([
  // idle, at work; idle with a need, at work with a need
  ['none', 'good works needs-person needs-person'],
  ['remove', 'good works needs-person needs-person'],
  ['wait', 'works works needs-person needs-person'],
  ['leave-in', 'works works needs-person needs-person'],
  ['plug-in', 'needs-person needs-person needs-person needs-person'],
  ['call-support', 'failed failed failed failed'],
] as const)('the verdict with the advice %s: %s', (action, expected) => {
  const verdicts = [[], [need]].flatMap((needsPerson) =>
    (['idle', 'preloading'] as const).map((operation) =>
      verdictOf({ advice: { action, words: '', text: '' }, needsPerson, operation }),
    ),
  );
  expect(verdicts.join(' ')).toBe(expected);
});

it('knows all advice, and has the exit codes 0 to 3', () => {
  expect(PERSON_ACTIONS).toHaveLength(6);
  expect(VERDICTS).toEqual(['good', 'works', 'needs-person', 'failed']);
});
