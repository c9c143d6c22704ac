import type { Log } from '../../platform/log.ts';
import type { StateCopies } from '../../ports/state.ts';
import { createFailureLog } from '../reporting/failure-log.ts';

/** The adapters of {@link createCopyKeeper}. */
export interface CopyKeeperDependencies {
  readonly store: StateCopies;
  readonly log: Log;
}

/** Keeps a copy of the state, for when it is lost. */
export interface CopyKeeper {
  /** A failure is logged once and tried again in the next round. Only an abort throws. */
  follow(signal: AbortSignal): Promise<void>;
}

/** Creates a keeper. */
export function createCopyKeeper({ store, log }: CopyKeeperDependencies): CopyKeeper {
  const failures = createFailureLog(
    log,
    (reason) => `${reason}. The copy of the state is older; it is retried automatically`,
  );
  return {
    follow: async (signal) => {
      try {
        await store.keepCopy(signal);
        failures.succeeded();
      } catch (error) {
        signal.throwIfAborted();
        failures.failed(error);
      }
    },
  };
}
