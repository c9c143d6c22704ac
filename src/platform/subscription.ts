/** Stops a subscription. */
export type Unsubscribe = () => void;

/** Who is called when something has changed. A function that is added twice is called once. */
export type Listeners = Set<() => void>;

/** Calls every listener there is now, in the order in which they came. */
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
