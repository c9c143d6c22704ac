import { expect, it } from 'vitest';
import { ServeTurns } from '../../../../src/fleet/serve/serve-turns.ts';
import { seededRandom } from '../../../support/seeded-random.ts';

/** Turns that a test plays, with a clock of its own. */
function play(most: number) {
  let nowMs = 0;
  const turns = new ServeTurns(most, { monotonic: () => nowMs });
  return {
    after: (ms: number) => {
      nowMs += ms;
    },
    request: (node: string) => {
      const busy = turns.request(node);
      return busy === undefined ? ({ kind: 'granted' } as const) : ({ kind: 'wait', ...busy } as const);
    },
    end: (node: string) => turns.endRequest(node),
    lose: (node: string) => {
      turns.lose(node);
      return turns.isLost(node);
    },
    place: (node: string) => turns.request(node)?.queue?.place ?? 0,
  };
}

it('serves so many nodes at once, however many requests each has', () => {
  const { request, place } = play(2);
  for (const node of ['a', 'a', 'b', 'a']) expect(request(node)).toEqual({ kind: 'granted' });
  expect(place('c')).toBe(1);
  expect(place('d')).toBe(2);
  expect(place('c')).toBe(1);
});

it('gives a slot that becomes free to the first in the queue, not to who requests first', () => {
  const { request, after, end, place } = play(1);
  request('a');
  expect(place('b')).toBe(1);
  expect(place('c')).toBe(2);
  end('a');
  after(5_001);
  expect(place('c')).toBe(2);
  expect(request('b')).toEqual({ kind: 'granted' });
});

it('keeps the slot of a node between two blobs for 5 s', () => {
  const { request, after, end, place } = play(1);
  request('a');
  end('a');
  after(4_000);
  expect(request('a')).toEqual({ kind: 'granted' });
  end('a');
  after(4_000);
  expect(place('b')).toBe(1);
  after(1_001);
  expect(request('b')).toEqual({ kind: 'granted' });
});

it('keeps it for 1 s while another node waits', () => {
  const { request, after, end, place } = play(1);
  request('a');
  expect(place('b')).toBe(1);
  end('a');
  after(900);
  expect(request('a')).toEqual({ kind: 'granted' });
  end('a');
  after(1_001);
  expect(request('b')).toEqual({ kind: 'granted' });
  expect(place('a')).toBe(1);
});

it('forgets a node that does not request again, and the next one gets the slot', () => {
  const { request, after, end, place } = play(1);
  request('a');
  place('b');
  place('c');
  end('a');
  after(7_001);
  expect(place('c')).toBe(0);
  expect(request('b').kind).toBe('wait');
});

it('tells how long it takes by the turns before, and to request less often further behind', () => {
  const { request, after, end } = play(1);
  request('a');
  after(60_000);
  end('a');
  after(6_000);
  request('b');
  after(20_000);
  expect(request('c')).toEqual({ kind: 'wait', queue: { place: 1, waiting: 1, waitMs: 40_000 }, retryMs: 2_000 });
  expect(request('d')).toEqual({ kind: 'wait', queue: { place: 2, waiting: 2, waitMs: 100_000 }, retryMs: 4_000 });
  for (let more = 0; more < 20; more += 1) request(`e${more}`);
  expect(request('last')).toMatchObject({ retryMs: 46_000 });
  for (let more = 0; more < 200; more += 1) request(`f${more}`);
  expect(request('later')).toMatchObject({ retryMs: 300_000 });
});

it('gets few requests of a thousand that wait, and serves others when those that waited went elsewhere', () => {
  const { request, after, end } = play(2);
  const random = seededRandom(7);
  const nextAt = Array.from({ length: 1_000 }, () => Math.floor(random() * 10));
  const holders = new Map<number, number>();
  let [late, free] = [0, 0];
  for (let second = 0; second < 400; second += 1) {
    for (const [node, endsAt] of holders) {
      if (endsAt > second) continue;
      end(`${node}`);
      holders.delete(node);
    }
    for (const [node, at] of nextAt.entries()) {
      if (at > second) continue;
      if (second >= 30) late += 1;
      const answer = request(`${node}`);
      // Every second node gets it elsewhere.
      const restMs = answer.kind === 'granted' || node % 2 === 0 ? Number.MAX_SAFE_INTEGER : answer.retryMs;
      if (answer.kind === 'granted') holders.set(node, second + 5);
      nextAt[node] = second + Math.ceil((restMs / 1_000) * (0.7 + 0.3 * random()));
    }
    free += 2 - holders.size;
    after(1_000);
  }
  expect(late / 370).toBeLessThan(8);
  // A slot is kept for a second after a turn, and until the next node comes.
  expect(free).toBeLessThan(400);
});

it('tells the longest time until a turn has ended', () => {
  const { request, after } = play(1);
  request('a');
  after(60_000);
  expect(request('b')).toEqual({ kind: 'wait', queue: { place: 1, waiting: 1, mostMs: 540_000 }, retryMs: 2_000 });
  expect(request('c')).toMatchObject({ queue: { place: 2, waiting: 2, mostMs: 1_140_000 } });
});

it('ends a turn after ten minutes when others wait, and not otherwise', () => {
  const { request, after, end, place } = play(1);
  request('a');
  after(3_600_000);
  expect(request('a')).toEqual({ kind: 'granted' });
  end('a');
  expect(place('b')).toBe(1);
  expect(place('a')).toBe(2);
  end('a');
  expect(request('b')).toEqual({ kind: 'granted' });
  expect(place('a')).toBe(1);
});

it('takes the turn of a node that is too slow, if others wait', () => {
  const { request, end, lose, place } = play(1);
  request('a');
  expect(lose('a')).toBe(false);
  expect(place('b')).toBe(1);
  expect(lose('a')).toBe(true);
  expect(place('a')).toBe(2);
  end('a');
  expect(place('a')).toBe(2);
  expect(request('b')).toEqual({ kind: 'granted' });
});

it('gives a free slot to a node that comes, not to one before it that comes in minutes', () => {
  const { after, request, end } = play(1);
  for (const node of 'abcdefghij') request(node);
  end('a');
  // Those that come more often have gone. Node i is first, and comes later.
  after(32_000);
  expect(request('j')).toEqual({ kind: 'granted' });
});
