import type { Fault } from '../../domain/model/reason.ts';
import { isAnyDiskTrouble } from '../../domain/preload/disk-trouble.ts';
import type { FailedBlob } from '../../domain/state/bad-blob.ts';
import type { RunningTask, TaskFailure } from '../../domain/state/memory.ts';

/** How soon a failed task may be tried again. */
export type RetryPolicy =
  /**
   * 1 s doubling to 10 s, each up to a quarter shorter by chance, five times, then every five
   * minutes.
   */
  | 'backoff'
  /**
   * The runtime has not yet taken up its configuration: every 300 ms, thirty tries, then as
   * `backoff`.
   */
  | 'settling'
  /**
   * After half a second, ten tries, then every ten seconds: what is lacking is observed, so that
   * the task is not started before it is there.
   */
  | 'observed'
  /**
   * As `backoff`, and then every ten seconds: a disk is full or read-only, nothing tells when that
   * is over, and a try costs next to nothing.
   */
  | 'space'
  /**
   * Every five minutes from the first time: only a person can mend it, and nothing tells when that
   * was done.
   */
  | 'person'
  /** Not before the media change. */
  | 'media';

const BACKOFF_TRIES = 5;
/**
 * Largest part by which a pause of `backoff` is shorter, so that pulls that failed together are not
 * tried together for ever.
 */
const JITTER = 0.25;
/** Quick tries while the runtime takes up its configuration. */
const SETTLING_TRIES = 30;
const LATER_MS = 5 * 60_000;
const SPACE_LATER_MS = 10_000;
/** Long enough that a fault which comes at once can't keep the processor busy. */
const OBSERVED_MS = 500;
const OBSERVED_TRIES = 10;
const OBSERVED_LATER_MS = 10_000;

/** How often a runtime that has not yet taken up its mirrors is tried before that is told. */
const SETTLING_UNTOLD = 10;

/**
 * Whether a failure while the runtime takes up its configuration is told: once when it takes long,
 * and once when the quick tries are used up.
 */
export function isSettlingTold(attempts: number): boolean {
  return attempts === SETTLING_UNTOLD || attempts === SETTLING_TRIES + 1;
}

/** How soon what failed for `reason` is tried again, where nothing else is known. */
export function retryOf(reason: Fault): RetryPolicy {
  return isAnyDiskTrouble(reason) ? 'space' : 'backoff';
}

/** Remembers how tasks failed, in memory: a restart tries everything anew. */
export interface FailureLedger {
  list(): readonly TaskFailure[];
  note(task: RunningTask, reason: Fault, retry: RetryPolicy, now: number, blob?: FailedBlob): TaskFailure;
  succeeded(task: RunningTask): void;
  /** How the task failed last, if it did. */
  last(task: RunningTask): TaskFailure | undefined;
  /** The media changed: everything may be tried again. */
  forgetAll(): void;
}

/** An empty ledger. @param random 0 to 1, as Math.random */
export function createFailureLedger(random: () => number): FailureLedger {
  const failures = new Map<string, TaskFailure>();
  const settling = new Set<string>();
  return {
    list: () => [...failures.values()],
    note: (task, reason, retry, now, blob) => {
      const key = keyOf(task);
      // What failed otherwise after the runtime had settled has not been tried before.
      const isNew = retry !== 'settling' && settling.has(key);
      const attempts = isNew ? 1 : (failures.get(key)?.attempts ?? 0) + 1;
      const waitMs = waitOf(retry, attempts, random);
      const retryAt = waitMs === undefined ? undefined : now + waitMs;
      const about = { task, reason, ...(blob !== undefined && { blob }) };
      const failure = { ...about, attempts, retryAt, isExhausted: isExhausted(retry, attempts) };
      failures.set(key, failure);
      if (retry === 'settling') settling.add(key);
      else settling.delete(key);
      return failure;
    },
    succeeded: (task) => {
      failures.delete(keyOf(task));
      settling.delete(keyOf(task));
    },
    last: (task) => failures.get(keyOf(task)),
    forgetAll: () => {
      failures.clear();
      settling.clear();
    },
  };
}

/** One key for each task, also for the table of running ones. */
export function keyOf(task: RunningTask): string {
  return task.kind === 'pull' ? `pull ${task.bundleId} ${task.reference}` : `${task.kind} ${task.bundleId}`;
}

function waitOf(retry: RetryPolicy, attempts: number, random: () => number): number | undefined {
  switch (retry) {
    case 'media':
      return undefined;
    case 'person':
      return LATER_MS;
    case 'observed':
      return attempts <= OBSERVED_TRIES ? OBSERVED_MS : OBSERVED_LATER_MS;
    case 'settling':
      return attempts <= SETTLING_TRIES ? 300 : backoffMs(attempts - SETTLING_TRIES, random);
    case 'space':
      return Math.min(SPACE_LATER_MS, backoffMs(attempts, random));
    case 'backoff':
      return backoffMs(attempts, random);
  }
}

function backoffMs(tries: number, random: () => number): number {
  if (tries > BACKOFF_TRIES) return LATER_MS;
  return Math.round(Math.min(10_000, 1_000 * 2 ** (tries - 1)) * (1 - JITTER * random()));
}

/** Whether the quick tries are used up, or there are none. */
function isExhausted(retry: RetryPolicy, attempts: number): boolean {
  if (retry === 'observed') return false;
  if (retry === 'settling') return attempts > SETTLING_TRIES + BACKOFF_TRIES;
  return (retry !== 'backoff' && retry !== 'space') || attempts > BACKOFF_TRIES;
}
