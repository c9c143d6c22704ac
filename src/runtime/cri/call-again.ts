import { AppError } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';

/** A call to the runtime. */
export type Call<T> = (signal: AbortSignal) => Promise<T>;

/** Pauses between the tries of a call that fails. */
const PAUSES_MS = [100, 200, 400];

/**
 * Makes a call up to four times while the runtime answers with an error. An unreachable runtime is
 * not called again.
 *
 * @throws the error of the last try, or whatever aborted `signal`
 */
export async function callAgain<T>(call: Call<T>, clock: Clock, signal: AbortSignal): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await call(signal);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof AppError && error.code === 'runtime/unreachable') throw error;
      await clock.sleep(pauseMs, signal);
    }
  }
  return call(signal);
}
