import { withEither } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';

/** Lets one loop sleep until it is woken. */
export interface Wake {
  /** Ends the current wait, or the next one at once. */
  kick(): void;
  /** Ends the current or next wait when the monotonic clock reaches `at`. */
  kickAt(at: number): void;
  /** Resolves after a kick, after `ms`, or when `signal` aborts. Never throws. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

/** Creates one without a pending kick. */
export function createWake(clock: Clock): Wake {
  let isPending = false;
  let dueAt = Number.POSITIVE_INFINITY;
  let interrupt: AbortController | undefined;

  /** Sleeps until `ms` have passed, `kick`, `kickAt` or an abort. */
  async function sleep(ms: number, signal: AbortSignal): Promise<void> {
    const own = new AbortController();
    interrupt = own;
    await withEither([signal, own.signal], (either) => clock.sleep(ms, either)).catch(() => undefined);
    interrupt = undefined;
  }

  return {
    kick: () => {
      isPending = true;
      interrupt?.abort();
    },
    kickAt: (at) => {
      if (at >= dueAt) return;
      dueAt = at;
      interrupt?.abort();
    },
    wait: async (ms, signal) => {
      const endAt = clock.monotonic() + ms;
      for (;;) {
        const leftMs = Math.min(endAt, dueAt) - clock.monotonic();
        if (isPending || signal.aborted || leftMs <= 0) break;
        await sleep(leftMs, signal);
      }
      isPending = false;
      dueAt = Number.POSITIVE_INFINITY;
    },
  };
}
