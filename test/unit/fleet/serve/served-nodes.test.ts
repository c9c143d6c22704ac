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
    /** How long a request has to wait after a chunk, in milliseconds. */
    pauseOf: async (turn: Turn) => {
      const beforeMs = nowMs;
      await turn.add(1, signal);
      return nowMs - beforeMs;
    },
  };
}

it('lets a later request of a node give way to its first one while another node is served', async () => {
  const { begin, pauseOf } = play();
  const [first, later] = [begin('a'), begin('a')];
  const other = begin('b');
  expect(await pauseOf(first)).toBe(0);
  expect(await pauseOf(later)).toBe(200);
  expect(await pauseOf(other)).toBe(0);
  first.end();
  expect(await pauseOf(later)).toBe(0);
});

it('keeps no request back for one that stands still, or while nobody else is served', async () => {
  const { begin, pauseOf, after } = play();
  const [first, later] = [begin('a'), begin('a')];
  await pauseOf(first);
  expect(await pauseOf(later)).toBe(0);
  const other = begin('b');
  after(501);
  expect(await pauseOf(later)).toBe(0);
  await pauseOf(first);
  expect(await pauseOf(later)).toBe(200);
  other.end();
  expect(await pauseOf(later)).toBe(0);
});

it('takes the turn of a node that took less than 64 KiB/s for a minute while another one waits', async () => {
  const { begin, after, isBusy } = play();
  const [slow, fast] = [begin('a'), begin('b')];
  const take = async (turn: Turn, kib: number) => {
    await turn.add(kib * 1024, signal);
    return turn.isTooSlow();
  };
  const minute = async () => {
    const verdicts = [];
    for (let second = 0; second < 60; second += 1) {
      after(1_000);
      isBusy('c');
      verdicts.push([await take(slow, 60), await take(fast, 70)]);
    }
    return verdicts.at(-1);
  };
  for (let second = 0; second < 60; second += 1) {
    after(1_000);
    expect([await take(slow, 60), await take(fast, 70)]).toEqual([false, false]);
  }
  expect(await minute()).toEqual([true, false]);
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
