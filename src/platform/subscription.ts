export type Unsubscribe = () => void;

/** A function that is added twice is called once. */
export type Listeners = Set<() => void>;

/** Calls listeners in the order in which they were added. */
export function notifyAll(listeners: Listeners): void {
  for (const listener of [...listeners]) listener();
}

export function listen<Listener>(listeners: Set<Listener>, listener: Listener): Unsubscribe {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** Calls them all. */
export function together(stops: readonly (Unsubscribe | undefined)[]): Unsubscribe {
  return () => {
    for (const stop of stops) stop?.();
  };
}

export class Observable {
  private readonly listeners: Listeners = new Set();

  onChange(listener: () => void): Unsubscribe {
    return listen(this.listeners, listener);
  }

  notify(): void {
    notifyAll(this.listeners);
  }
}
