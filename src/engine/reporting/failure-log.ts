import { reasonOf } from '../../platform/app-error.ts';
import type { Log } from '../../platform/log.ts';

/** Logs a failure that repeats each round only once. */
export interface FailureLog {
  /** Logs a failure as a warning, unless the one before it had the same reason. */
  failed(error: unknown): void;
  /** It works again: the next failure is logged, whatever its reason is. */
  succeeded(): void;
}

/** Creates a log for one kind of work. @param messageOf the line for a reason without full stop */
export function createFailureLog(
  log: Log,
  messageOf: (reason: string) => string = (reason) => `${reason}. It is retried automatically`,
): FailureLog {
  let last: string | undefined;
  return {
    failed: (error) => {
      const reason = reasonOf(error);
      if (reason !== last) log.warn({ err: error }, messageOf(reason));
      last = reason;
    },
    succeeded: () => {
      last = undefined;
    },
  };
}
