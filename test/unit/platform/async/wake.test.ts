import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { Wake } from '../../../../src/platform/async/wake.ts';
import { createVirtualClock } from '../../../support/fake-ports.ts';

const never = new AbortController().signal;

function waiting(ms: number, signal = never, prepare: (kick: () => void) => void = () => undefined) {
  const clock = createVirtualClock();
  const wake = new Wake(clock);
  prepare(() => wake.kick());
  return { clock, wake, state: waitMore(wake, ms, signal) };
}

/** One more wait, and whether it is over. */
function waitMore(wake: Wake, ms = 1_000, signal = never) {
  const state = { isOver: false };
  void wake.wait(ms, signal).then(() => {
    state.isOver = true;
  });
  return state;
}

describe('wake', () => {
  it('waits for its time', async () => {
    const { clock, state } = waiting(1_000);
    await clock.advance(999);
    expect(state.isOver).toBe(false);
    await clock.advance(1);
    expect(state.isOver).toBe(true);
  });

  it('ends at a kick, also at one before the wait', async () => {
    const during = waiting(1_000);
    await during.clock.advance(1);
    during.wake.kick();
    await during.clock.advance(0);
    expect(during.state.isOver).toBe(true);
    const before = waiting(1_000, never, (kick) => kick());
    await before.clock.advance(0);
    expect(before.state.isOver).toBe(true);
  });

  it('counts many kicks as one, and keeps none for the wait after the next', async () => {
    const { clock, wake, state } = waiting(1_000, never, (kick) => {
      kick();
      kick();
    });
    await clock.advance(0);
    expect(state.isOver).toBe(true);
    const second = waitMore(wake);
    await clock.advance(999);
    expect(second.isOver).toBe(false);
  });

  it('loses no kick between the end of a wait and the next one', async () => {
    const { clock, wake } = waiting(10);
    await clock.advance(10);
    wake.kick();
    const next = waitMore(wake);
    await clock.advance(0);
    expect(next.isOver).toBe(true);
  });

  it('ends at the earliest requested time, and forgets it', async () => {
    const { clock, wake, state } = waiting(1_000);
    wake.kickAt(500);
    wake.kickAt(700);
    await clock.advance(499);
    expect(state.isOver).toBe(false);
    await clock.advance(1);
    expect(state.isOver).toBe(true);
    const second = waitMore(wake);
    await clock.advance(999);
    expect(second.isOver).toBe(false);
  });

  it('ends at a time that was requested before the wait, and at once when that is past', async () => {
    const { clock, wake } = waiting(0);
    await clock.advance(100);
    wake.kickAt(50);
    const next = waitMore(wake);
    await clock.advance(0);
    expect(next.isOver).toBe(true);
  });

  it('ends without an error when its signal aborts', async () => {
    const stop = new AbortController();
    const { clock, state } = waiting(1_000, stop.signal);
    stop.abort();
    await clock.advance(0);
    expect(state.isOver).toBe(true);
    const late = waiting(1_000, stop.signal);
    await late.clock.advance(0);
    expect(late.state.isOver).toBe(true);
  });

  it('leaves nothing behind on the signal of the daemon', async () => {
    const { signal } = new AbortController();
    const { wake, clock } = waiting(10, signal);
    await clock.advance(10);
    void wake.wait(1_000, signal);
    wake.kick();
    await clock.advance(0);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    const dependants = Object.getOwnPropertySymbols(signal).find((key) => key.description === 'kDependantSignals');
    expect(dependants === undefined ? undefined : Reflect.get(signal, dependants)).toBeFalsy();
  });
});
