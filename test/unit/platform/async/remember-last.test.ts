import { expect, it } from 'vitest';
import { rememberLast } from '../../../../src/platform/async/concurrency.ts';

it('calls the function once for the same text, and again for each other text', () => {
  const worked: string[] = [];
  const length = rememberLast((text) => worked.push(text) && text.length);
  expect(['', 'a', 'a', 'bb', 'a'].map(length)).toEqual([0, 1, 1, 2, 1]);
  expect(worked).toEqual(['', 'a', 'bb', 'a']);
});

it('does not remember an error', () => {
  let calls = 0;
  const fail = rememberLast(() => {
    calls += 1;
    throw new Error('bad');
  });
  for (const _time of [1, 2]) expect(() => fail('a')).toThrow('bad');
  expect(calls).toBe(2);
});
