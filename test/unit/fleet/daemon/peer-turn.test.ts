import { describe, expect, it } from 'vitest';
import { PeerTurn } from '../../../../src/fleet/daemon/peer-bundle.ts';
import { busyError } from '../../../../src/fleet/wire/documents.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { digestOf } from '../../../../src/platform/digest.ts';
import { eventually } from '../../../support/eventually.ts';

const digest = digestOf('a blob');
const never = new AbortController().signal;

/** A turn on a clock that counts what is slept, and sleeps a thousandth of it. */
function turnWith(ask: () => Promise<void>) {
  const slept: number[] = [];
  const states: string[] = [];
  const clock = {
    ...systemClock,
    sleep: (ms: number, signal: AbortSignal) => {
      slept.push(ms);
      return systemClock.sleep(ms / 1_000, signal);
    },
  };
  const turn = new PeerTurn({
    tryBlob: ask,
    changed: () => states.push(JSON.stringify(turn.state())),
    failed: () => undefined,
    clock,
    random: () => 0.5,
  });
  return { turn, slept, states };
}

describe('the turn at a peer', () => {
  it('is asked for again before the time that the peer told, until it comes', async () => {
    let asked = 0;
    const { turn, slept, states } = turnWith(async () => {
      asked += 1;
      if (asked < 2) throw busyError('worker-2', { queue: { place: 1, waiting: 3 }, retryMs: 4_000 });
    });
    turn.busy({ queue: { place: 2, waiting: 3 }, retryMs: 2_000 }, digest);
    turn.busy({ retryMs: 1 }, digest);
    expect(turn.state()).toEqual({ isReady: false, queue: { place: 2, waiting: 3 } });
    await turn.untilReady(never);
    expect(slept).toEqual([1_700, 3_400]);
    expect(states).toEqual([
      '{"isReady":false,"queue":{"place":2,"waiting":3}}',
      '{"isReady":false,"queue":{"place":1,"waiting":3}}',
      '{"isReady":true}',
    ]);
  });

  it('comes after a pause that grows with each failure, until something works', async () => {
    const { turn, slept } = turnWith(async () => undefined);
    for (let failure = 0; failure < 3; failure += 1) {
      turn.failed();
      expect(turn.state().isReady).toBe(false);
      await turn.untilReady(never);
      expect(turn.state()).toEqual({ isReady: true, hasFailed: true });
    }
    turn.worked();
    expect(turn.state()).toEqual({ isReady: true });
    turn.failed();
    await turn.untilReady(never);
    expect(slept).toEqual([1_000, 2_000, 4_000, 1_000]);
  });

  it('ends with the peer', async () => {
    const { turn, states } = turnWith(async () => undefined);
    turn.busy({ retryMs: 60_000_000 }, digest);
    const waiting = turn.untilReady(never);
    turn.close();
    await expect(waiting).rejects.toThrow();
    await eventually(() => expect(states).toHaveLength(1));
  });
});
