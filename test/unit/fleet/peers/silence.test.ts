import { expect, it } from 'vitest';
import { createSilence } from '../../../../src/fleet/peers/silence.ts';

const HOUR = 3_600_000;

function scene() {
  let nowMs = 0;
  const clock = { now: () => 1_000_000 + nowMs, monotonic: () => nowMs, sleep: async () => undefined };
  const silence = createSilence(HOUR, clock);
  const pass = (ms: number, isAsking: boolean) => {
    nowMs += ms;
    silence.pass(['a', 'b'], isAsking);
  };
  return { silence, pass };
}

it('counts silence only while nodes are asked', () => {
  const { silence, pass } = scene();
  pass(10 * HOUR, false);
  expect(silence.isAbsent('a')).toBe(false);
  pass(HOUR - 1, true);
  expect(silence.isAbsent('a')).toBe(false);
  pass(1, true);
  expect(silence.isAbsent('a')).toBe(true);
});

it('ends with a sign of life of that node', () => {
  const { silence, pass } = scene();
  pass(HOUR, true);
  silence.heard('a');
  expect([silence.isAbsent('a'), silence.isAbsent('b')]).toEqual([false, true]);
  expect([silence.seenAt('a'), silence.seenAt('b')]).toEqual([1_000_000 + HOUR, undefined]);
});

it('forgets nodes that left', () => {
  const { silence, pass } = scene();
  pass(HOUR, true);
  silence.pass(['a'], true);
  silence.pass(['a', 'b'], true);
  expect([silence.isAbsent('a'), silence.isAbsent('b')]).toEqual([true, false]);
});
