import { type Clock, systemClock } from '../../../src/platform/clock.ts';

/** A clock on which `times` as much time passes as on that of the machine. */
export function fastClock(times: number): Clock {
  const startedAt = systemClock.now();
  const zero = systemClock.monotonic();
  const passedMs = () => (systemClock.monotonic() - zero) * times;
  return {
    now: () => startedAt + passedMs(),
    monotonic: passedMs,
    sleep: (ms, signal) => systemClock.sleep(ms / times, signal),
  };
}
