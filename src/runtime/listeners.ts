import type { Unsubscribe } from '../platform/subscription.ts';

/** Subscribers to one source of signals that runs only while there are any. */
export interface Listeners {
  add(listener: () => void): Unsubscribe;
}

/**
 * {@link Listeners} of a source: `start` subscribes to it when the first listener comes, what it
 * returns is called when the last has gone.
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
