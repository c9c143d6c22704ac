import type { EngineContext } from '../context.ts';
import { createFailureLog, type FailureLog } from '../reporting/failure-log.ts';

/** Keeps a copy of the state, for when it is lost. */
export class CopyKeeper {
  private readonly failures: FailureLog;

  constructor(private readonly context: EngineContext) {
    this.failures = createFailureLog(
      context.log,
      (reason) => `${reason}. The copy of the state is older; it is retried automatically`,
    );
  }

  /** A failure is logged once and tried again in the next round. Only an abort throws. */
  async reconcile(signal: AbortSignal): Promise<void> {
    try {
      await this.context.store.keepCopy(signal);
      this.failures.succeeded();
    } catch (error) {
      signal.throwIfAborted();
      this.failures.failed(error);
    }
  }
}
