import { deferred, untilAborted, withEither } from './abort.ts';

/** The first failure aborts the others, and is thrown after all have ended. */
export async function forEachLimited<T>(
  items: readonly T[],
  limit: number,
  parent: AbortSignal,
  work: (item: T, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const failure = new AbortController();
  const queue = [...items];
  let first: { readonly error: unknown } | undefined;
  const worker = async (signal: AbortSignal): Promise<void> => {
    for (let item = queue.shift(); item !== undefined && first === undefined; item = queue.shift()) {
      try {
        await work(item, signal);
      } catch (error) {
        first ??= { error };
        failure.abort(error);
      }
    }
  };
  await withEither([parent, failure.signal], (signal) =>
    Promise.all(Array.from({ length: limit }, () => worker(signal))),
  );
  if (first !== undefined) throw first.error;
}

/**
 * Results come in the order of the items; the first error in that order ends it. At the end, or
 * when the consumer stops, it waits for all running work.
 */
export async function* inOrder<Item, Result>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item) => Promise<Result>,
): AsyncGenerator<Awaited<Result>, void, undefined> {
  const inHand: Promise<Result>[] = [];
  const begin = (item: Item): void => {
    const one = work(item);
    // The await below throws its error; until then it must not count as unhandled.
    one.catch(() => undefined);
    inHand.push(one);
  };
  try {
    for (const item of items) {
      begin(item);
      if (inHand.length < atOnce) continue;
      const [oldest] = inHand.splice(0, 1);
      if (oldest !== undefined) yield await oldest;
    }
    for (let oldest = inHand.shift(); oldest !== undefined; oldest = inHand.shift()) yield await oldest;
  } finally {
    await Promise.allSettled(inHand);
  }
}

/** An error does not stop the next work. */
export type InTurn = <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

/** Runs calls in their order. A call that is aborted before it starts does not run. */
export function oneAtATime(): InTurn {
  let last: Promise<unknown> = Promise.resolve();
  return (signal, work) => {
    const result = last.then(() => {
      signal.throwIfAborted();
      return work();
    });
    last = result.catch(() => undefined); // the caller handles its error
    return result;
  };
}

/** Caches the last call. The result is shared; don't modify it. */
export function rememberLast<T>(work: (text: string) => T): (text: string) => T {
  let last: { readonly text: string; readonly result: T } | undefined;
  return (text) => {
    if (last?.text !== text) last = { text, result: work(text) };
    return last.result;
  };
}

/** Each call waits for a run that began after it. An error goes to all of them. */
export function shareRuns(work: () => Promise<void>): () => Promise<void> {
  let underWay: Promise<unknown> = Promise.resolve();
  let next: Promise<void> | undefined;
  return () => {
    next ??= underWay.then(() => {
      next = undefined;
      const run = work();
      underWay = run.catch(() => undefined); // whoever shares it hears of its error
      return run;
    });
    return next;
  };
}

/** A limit of parallel work. */
export class Places {
  private readonly waiting = new Set<() => void>();
  private free: number;

  /** @param around several limits share it: a place also takes one of it */
  constructor(
    count: number,
    private readonly around?: Places,
  ) {
    this.free = count;
  }

  /**
   * Serves calls in their order. @returns a function that frees the place, once @throws the reason
   * of `signal`
   */
  async take(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    await this.enter(signal);
    try {
      const leaveAround = await this.around?.take(signal);
      return () => {
        this.leave();
        leaveAround?.();
      };
    } catch (error) {
      this.leave();
      throw error;
    }
  }

  private async enter(signal: AbortSignal): Promise<void> {
    if (this.free > 0) {
      this.free -= 1;
      return;
    }
    const { promise, resolve } = deferred<void>();
    this.waiting.add(resolve);
    try {
      await untilAborted(promise, signal);
    } catch (error) {
      // It may have got the place in the same moment.
      if (!this.waiting.delete(resolve)) this.leave();
      throw error;
    }
  }

  private leave(): void {
    const [next] = this.waiting;
    if (next === undefined) this.free += 1;
    else {
      this.waiting.delete(next);
      next();
    }
  }
}

/** A system call that hangs keeps its place. @throws errors of `work`; the reason of `signal` */
export async function inPlace<T>(places: Places, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const leave = await places.take(signal);
  return untilAborted(leaveAfter(work, leave), signal);
}

async function leaveAfter<T>(work: () => Promise<T>, leave: () => void): Promise<T> {
  try {
    return await work();
  } finally {
    leave();
  }
}

/** Whether it succeeds, with any result. */
export function succeeds(attempt: Promise<unknown>): Promise<boolean> {
  return attempt.then(
    () => true,
    () => false,
  );
}
