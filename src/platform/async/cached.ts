import { untilAborted } from './abort.ts';

interface Reading<T> {
  readonly value: Promise<T>;
  readonly end: AbortController;
  waiting: number;
}

/**
 * A value that is read when it is needed, and kept until it is invalidated. All callers meanwhile
 * share one read. It fails for all of them, and ends early only when all of them have aborted.
 */
export class Cached<T> {
  private current: Reading<T> | undefined;

  constructor(private readonly read: (signal: AbortSignal) => Promise<T>) {}

  /** @throws errors of the read, after which the next call reads again; the reason of `signal` */
  async get(signal: AbortSignal): Promise<T> {
    signal.throwIfAborted();
    this.current ??= this.begin();
    const reading = this.current;
    reading.waiting += 1;
    try {
      return await untilAborted(reading.value, signal);
    } catch (error) {
      if (!signal.aborted || reading.waiting === 1) this.drop(reading);
      throw error;
    } finally {
      reading.waiting -= 1;
      if (reading.waiting === 0) reading.end.abort();
    }
  }

  /** A running read counts only for callers from before this call. */
  invalidate(): void {
    this.current = undefined;
  }

  private begin(): Reading<T> {
    const end = new AbortController();
    return { value: this.read(end.signal), end, waiting: 0 };
  }

  private drop(reading: Reading<T>): void {
    if (this.current === reading) this.current = undefined;
  }
}
