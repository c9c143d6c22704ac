import { expect, it } from 'vitest';
import { Pace, ServedNodes, type Turn } from '../../../../src/fleet/serve/served-nodes.ts';

const signal = new AbortController().signal;

/** Nodes that are served, with a clock of their own. */
function play() {
  let nowMs = 0;
  const clock = {
    now: () => nowMs,
    monotonic: () => nowMs,
    sleep: async (ms: number) => {
      nowMs += ms;
    },
  };
  const nodes = new ServedNodes({ max_clients: 2, rate: 'unlimited' }, clock);
  const begin = (node: string): Turn => {
    const granted = nodes.request(node);
    if ('busy' in granted) throw new Error(`${node} has to wait`);
    return granted.turn;
  };
  return {
    clock,
    begin,
    isBusy: (node: string) => 'busy' in nodes.request(node),
    after: (ms: number) => {
      nowMs += ms;
    },
  };
}

it('takes the turn of a node that took less than 64 KiB/s for a minute while another one waits', () => {
  const { begin, after, isBusy } = play();
  const [slow, fast] = [begin('a'), begin('b')];
  const take = (turn: Turn, kib: number) => {
    turn.add(kib * 1024);
    return turn.isTooSlow();
  };
  const minute = () => {
    const verdicts = [];
    for (let second = 0; second < 60; second += 1) {
      after(1_000);
      isBusy('c');
      verdicts.push([take(slow, 60), take(fast, 70)]);
    }
    return verdicts.at(-1);
  };
  for (let second = 0; second < 60; second += 1) {
    after(1_000);
    expect([take(slow, 60), take(fast, 70)]).toEqual([false, false]);
  }
  expect(minute()).toEqual([true, false]);
  slow.end();
  expect(isBusy('a')).toBe(true);
  expect(isBusy('c')).toBe(false);
});

it('takes the turn of a node that took nothing until its request was cut', () => {
  const { begin, after, isBusy } = play();
  const [stalled] = [begin('a'), begin('b')];
  after(59_000);
  expect(isBusy('c')).toBe(true);
  after(1_500);
  stalled.end();
  expect(isBusy('a')).toBe(true);
  expect(isBusy('c')).toBe(false);
});

it('lets all nodes together take at the rate, after a small burst, and does not save up what was not used', async () => {
  const { clock, after } = play();
  const pace = new Pace(1_000, clock);
  for (const [bytes, endMs] of [
    [250, 0],
    [500, 500],
    [500, 1_000],
  ] as const) {
    await pace.take(bytes, signal);
    expect(clock.monotonic()).toBe(endMs);
  }
  after(99_000);
  await pace.take(1_250, signal);
  expect(clock.monotonic()).toBe(101_000);
});
