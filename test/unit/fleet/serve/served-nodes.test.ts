import { expect, it } from 'vitest';
import { createServedNodes, type Turn } from '../../../../src/fleet/serve/served-nodes.ts';

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
  const nodes = createServedNodes({ max_clients: 2, rate: 'unlimited' }, clock);
  const begin = (node: string): Turn => {
    const asked = nodes.ask(node);
    if ('busy' in asked) throw new Error(`${node} has to wait`);
    return asked.turn;
  };
  return {
    begin,
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
