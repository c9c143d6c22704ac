import type { TaskFailure } from './memory.ts';

/**
 * No pause after a failure is longer. One that seems to be comes from a wall clock that was set
 * back, and is over.
 */
const LONGEST_PAUSE_MS = 5 * 60_000;

/** Whether a task that failed must not be tried yet. */
export function isWaiting({ retryAt }: Pick<TaskFailure, 'retryAt'>, now: number): boolean {
  return retryAt === undefined || (retryAt > now && retryAt - now <= LONGEST_PAUSE_MS);
}
