import type { Reason } from '../domain/medium.ts';
import type { RunningTask, TaskFailure } from '../domain/state.ts';

/** How soon a failed task may be tried again. */
export type RetryPolicy =
  /** 1 s doubling to 10 s, five tries, then every five minutes. */
  | 'backoff'
  /** The runtime has not yet taken up its configuration: every 300 ms, thirty tries, then as `backoff`. */
  | 'settling'
  /** After half a second, ten tries, then every ten seconds: what is lacking is observed, so that the task is not started before it is there. */
  | 'observed'
  /** Not before the media change. */
  | 'media';

const BACKOFF_TRIES = 5;
/** Quick tries while the runtime takes up its configuration. */
export const SETTLING_TRIES = 30;
const LATER_MS = 5 * 60_000;
/** Long enough that a fault which comes at once can't keep the processor busy. */
const OBSERVED_MS = 500;
const OBSERVED_TRIES = 10;
const OBSERVED_LATER_MS = 10_000;

/** Remembers how tasks failed, in memory: a restart tries everything anew. */
export interface FailureLedger {
  list(): readonly TaskFailure[];
  note(task: RunningTask, reason: Reason, retry: RetryPolicy, now: number): TaskFailure;
  succeeded(task: RunningTask): void;
  /** How the task failed last, if it did. */
  last(task: RunningTask): TaskFailure | undefined;
  /** The media changed: everything may be tried again. */
  forgetAll(): void;
}

/** An empty ledger. */
export function createFailureLedger(): FailureLedger {
  const failures = new Map<string, TaskFailure>();
  return {
    list: () => [...failures.values()],
    note: (task, reason, retry, now) => {
      const attempts = (failures.get(keyOf(task))?.attempts ?? 0) + 1;
      const wait = waitMs(retry, attempts);
      const failure = { task, reason, attempts, retryAt: wait === undefined ? undefined : now + wait };
      failures.set(keyOf(task), failure);
      return failure;
    },
    succeeded: (task) => {
      failures.delete(keyOf(task));
    },
    last: (task) => failures.get(keyOf(task)),
    forgetAll: () => failures.clear(),
  };
}

/** One key for each task, also for the table of running ones. */
export function keyOf(task: RunningTask): string {
  return task.kind === 'pull' ? `pull ${task.bundleId} ${task.reference}` : `activate ${task.bundleId}`;
}

function waitMs(retry: RetryPolicy, attempts: number): number | undefined {
  if (retry === 'media') return undefined;
  if (retry === 'observed') return attempts <= OBSERVED_TRIES ? OBSERVED_MS : OBSERVED_LATER_MS;
  if (retry === 'settling' && attempts <= SETTLING_TRIES) return 300;
  const tries = retry === 'settling' ? attempts - SETTLING_TRIES : attempts;
  return tries <= BACKOFF_TRIES ? Math.min(10_000, 1_000 * 2 ** (tries - 1)) : LATER_MS;
}
