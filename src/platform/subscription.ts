export type Unsubscribe = () => void;

/** A function that is added twice is called once. */
export type Listeners = Set<() => void>;

/** In the order in which they were added. */
export function notifyAll(listeners: Listeners): void {
  for (const listener of [...listeners]) listener();
}

export function listen(listeners: Listeners, listener: () => void): Unsubscribe {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}
