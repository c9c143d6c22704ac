import type { Clock } from '../platform/clock.ts';

/** Lets one loop sleep until somebody wants it. */
export interface Wake {
  /** Ends the present wait, or the next one at once. */
  kick(): void;
  /** Resolves after a kick or after `ms`; also, without a throw, when `signal` aborts. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

/** A wake without a kick pending. */
export function createWake(clock: Clock): Wake {
  let isPending = false;
  let interrupt: AbortController | undefined;
  return {
    kick: () => {
      isPending = true;
      interrupt?.abort();
    },
    wait: async (ms, signal) => {
      if (!isPending) {
        const own = new AbortController();
        interrupt = own;
        await clock.sleep(ms, AbortSignal.any([signal, own.signal])).catch(() => undefined);
        interrupt = undefined;
      }
      isPending = false;
    },
  };
}
