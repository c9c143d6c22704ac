/** Stops a subscription. */
export type Unsubscribe = () => void;

/** Functions that are called after a change. A function that is added twice is called once. */
export type Listeners = Set<() => void>;

/** Calls all current listeners, in the order in which they were added. */
export function notifyAll(listeners: Listeners): void {
  for (const listener of [...listeners]) listener();
}

/** Adds a listener. */
export function listen(listeners: Listeners, listener: () => void): Unsubscribe {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}
