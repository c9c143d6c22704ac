import { expect, it } from 'vitest';
import { Trouble } from '../../../src/fleet/trouble.ts';
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
