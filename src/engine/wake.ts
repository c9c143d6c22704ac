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
      if (!isPending && !signal.aborted) {
        const own = new AbortController();
        const stop = () => own.abort();
        interrupt = own;
        // Not AbortSignal.any(): in Node 20 each use leaves an entry on a signal that lives as long as the daemon.
        signal.addEventListener('abort', stop, { once: true });
        await clock.sleep(ms, own.signal).catch(() => undefined);
        signal.removeEventListener('abort', stop);
        interrupt = undefined;
      }
      isPending = false;
    },
  };
}
