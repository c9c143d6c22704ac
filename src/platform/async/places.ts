import { deferred, untilAborted } from './abort.ts';

/** A limit of what runs at the same time. */
export interface Places {
  /**
   * Waits for a place, in the order of the calls. @returns gives the place back, once
   * @throws whatever aborted `signal` meanwhile
   */
  take(signal: AbortSignal): Promise<() => void>;
}

/**
 * Creates `count` places. Who takes one also takes one of `around`, if given, which several of them
 * share.
 */
export function createPlaces(count: number, around?: Places): Places {
  let free = count;
  const waiting = new Set<() => void>();
  const leave = (): void => {
    const [next] = waiting;
    if (next === undefined) free += 1;
    else {
      waiting.delete(next);
      next();
    }
  };
  const enter = async (signal: AbortSignal): Promise<void> => {
    if (free > 0) {
      free -= 1;
      return;
    }
    const { promise, resolve } = deferred<void>();
    waiting.add(resolve);
    try {
      await untilAborted(promise, signal);
    } catch (error) {
      // It may have got the place in the same moment.
      if (!waiting.delete(resolve)) leave();
      throw error;
    }
  };
  return {
    take: async (signal) => {
      signal.throwIfAborted();
      await enter(signal);
      try {
        const leaveAround = await around?.take(signal);
        return () => {
          leave();
          leaveAround?.();
        };
      } catch (error) {
        leave();
        throw error;
      }
    },
  };
}

/**
 * Runs `work` in a place, and waits for it until `signal` aborts. `work` keeps its place until it
 * has ended, also after that: a system call that hangs can't be interrupted.
 *
 * @throws as `work`; whatever aborted `signal`
 */
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
