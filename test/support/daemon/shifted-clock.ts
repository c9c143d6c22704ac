import type { BootTime } from '../../../src/domain/model/image.ts';
import { type Clock, systemClock } from '../../../src/platform/clock.ts';

/**
 * The machine's clock, and more that passes at once. What sleeps sleeps on: only who looks at the
 * clock sees that time has passed.
 */
export interface ShiftedClock extends Clock {
  boot(): BootTime;
  pass(ms: number): void;
  /** Sets the wall clock back or forth; durations don't notice. */
  jump(ms: number): void;
  /** Another boot id, and no time since the boot. */
  reboot(): void;
}

/** A clock that shows the time of the machine. */
export function createShiftedClock(): ShiftedClock {
  let passedMs = 0;
  let skewMs = 0;
  let [boots, bootedAt] = [0, 0];
  const monotonic = () => systemClock.monotonic() + passedMs;
  return {
    now: () => systemClock.now() + passedMs + skewMs,
    monotonic,
    sleep: systemClock.sleep,
    boot: () => ({ bootId: `boot-${boots}`, uptimeMs: Math.round(monotonic() - bootedAt) }),
    pass: (ms) => {
      passedMs += ms;
    },
    jump: (ms) => {
      skewMs += ms;
    },
    reboot: () => {
      boots += 1;
      bootedAt = monotonic();
    },
  };
}
