import type { Unsubscribe } from '../platform/subscription.ts';

/** Listeners for one source of signals, which runs only while there are listeners. */
export interface Listeners {
  add(listener: () => void): Unsubscribe;
}

/**
 * Makes {@link Listeners}. `start` is called with the first listener; the function that it returns
 * is called when the last one is removed.
 */
export function createListeners(start: (notify: () => void) => Unsubscribe): Listeners {
  const listeners = new Set<{ readonly call: () => void }>();
  let stop: Unsubscribe | undefined;
  return {
    add: (call) => {
      const entry = { call };
      listeners.add(entry);
      stop ??= start(() => {
        for (const each of listeners) each.call();
      });
      return () => {
        listeners.delete(entry);
        if (listeners.size > 0) return;
        stop?.();
        stop = undefined;
      };
    },
  };
}
