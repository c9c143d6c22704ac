import { expect, it } from 'vitest';
import { Trouble, WarnOnce } from '../../../src/fleet/trouble.ts';
import { createRecordingLog } from '../../support/recording-log.ts';

function play() {
  let nowMs = 5_000;
  const log = createRecordingLog();
  const clock = { now: () => nowMs, monotonic: () => nowMs, sleep: async () => undefined };
  return {
    log,
    clock,
    after: (ms: number) => {
      nowMs += ms;
    },
    lines: () => log.lines.map(({ level, message }) => `${level}: ${message}`),
  };
}

it('tells what begins and what ends once, and what it is at any time', () => {
  const { log, lines } = play();
  const trouble = new Trouble(log);
  expect(trouble.end('over')).toBe(false);
  expect([trouble.begin('one', new Error('x')), trouble.begin('one'), trouble.begin('two')]).toEqual([
    true,
    false,
    true,
  ]);
  expect(trouble.current()).toBe('two');
  expect(trouble.end('over')).toBe(true);
  expect([trouble.current(), lines()]).toEqual([undefined, ['warn: one', 'info: over']]);
});

it('says nothing of what is over within half a minute, and tells what lasts longer', () => {
  const { log, lines, clock, after } = play();
  const trouble = new Trouble(log, clock);
  trouble.begin('not there');
  expect(trouble.current()).toBe('not there');
  after(29_000);
  trouble.begin('not there');
  trouble.end('there');
  expect(lines()).toEqual([]);
  trouble.begin('away');
  after(29_999);
  trouble.begin('still away');
  expect(lines()).toEqual([]);
  after(1);
  trouble.begin('still away');
  trouble.begin('still away');
  trouble.end('there again');
  expect(lines()).toEqual(['warn: still away', 'info: there again']);
  trouble.begin('away for a moment');
  trouble.end('there once more');
  expect(lines()).toHaveLength(2);
});

it('logs at most 30 warnings about peers in a minute, and one that there were more', () => {
  const { log, lines, clock, after } = play();
  const warnings = new WarnOnce(log, clock);
  for (let time = 0; time < 100; time += 1) {
    warnings.warn('worker-9', 'away', {}, 'Nothing comes from worker-9');
    warnings.over('worker-9');
  }
  expect(lines()).toHaveLength(31);
  expect(lines().at(-1)).toBe('warn: More than 30 warnings about other nodes in a minute: the rest of it is left out');
  after(60_000);
  warnings.warn('worker-9', 'away', {}, 'Nothing comes from worker-9');
  expect(lines()).toHaveLength(32);
});
