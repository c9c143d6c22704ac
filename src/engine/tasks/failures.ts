import type { Fault } from '../../domain/model/reason.ts';
import { isAnyDiskTrouble } from '../../domain/preload/space.ts';
import type { FailedBlob } from '../../domain/state/checks.ts';
import type { RunningTask, TaskFailure } from '../../domain/state/memory.ts';

/** When a failed task may be tried again. */
export type RetryPolicy =
  /**
   * Five tries after 1 s doubling to 10 s, each randomly up to a quarter shorter. Then every five
   * minutes.
   */
  | 'backoff'
  /**
   * The runtime does not use its new configuration yet: thirty tries every 300 ms, then as
   * `backoff`.
   */
  | 'settling'
  /**
   * Ten tries every half second, then every ten seconds. The missing part is observed, and the task
   * does not start before it is available.
   */
  | 'observed'
  /**
   * As `backoff`, then every ten seconds. A disk is full or read-only: nothing signals the end of
   * that, and a try is cheap.
   */
  | 'space'
  /**
   * Every five minutes from the first time. Only a person can repair the cause, and nothing signals
   * that.
   */
  | 'person'
  /** Only after the media change. */
  | 'media';

const BACKOFF_TRIES = 5;
/**
 * Largest random part by which a pause of `backoff` is shorter. It separates retries of pulls that
 * failed at the same time.
 */
const JITTER = 0.25;
/** Number of quick tries while the runtime does not use its new configuration. */
const SETTLING_TRIES = 30;
const LATER_MS = 5 * 60_000;
const SPACE_LATER_MS = 10_000;
/** Long enough that an immediate failure can't keep the processor busy. */
const OBSERVED_MS = 500;
const OBSERVED_TRIES = 10;
const OBSERVED_LATER_MS = 10_000;

/** The number of tries after which unused mirrors are reported. */
const SETTLING_REPORTED = 10;

/**
 * Whether a `settling` failure is reported: once after {@link SETTLING_REPORTED} tries, and once
 * when the quick tries are used up.
 */
export function isSettlingReported(attempts: number): boolean {
  return attempts === SETTLING_REPORTED || attempts === SETTLING_TRIES + 1;
}

/** The default retry policy for a failure with this reason. */
export function retryOf(reason: Fault): RetryPolicy {
  return isAnyDiskTrouble(reason) ? 'space' : 'backoff';
}

/** Keeps the failures of tasks in memory only: after a restart everything is tried again. */
export class FailureLedger {
  private readonly failures = new Map<string, TaskFailure>();
  private readonly settling = new Set<string>();

  /** @param random 0 to 1, as Math.random */
  constructor(private readonly random: () => number) {}

  list(): readonly TaskFailure[] {
    return [...this.failures.values()];
  }

  note(task: RunningTask, reason: Fault, retry: RetryPolicy, now: number, blob?: FailedBlob): TaskFailure {
    const key = keyOf(task);
    // The first failure of another kind after `settling` counts as the first try.
    const isNew = retry !== 'settling' && this.settling.has(key);
    const attempts = isNew ? 1 : (this.failures.get(key)?.attempts ?? 0) + 1;
    const waitMs = waitOf(retry, attempts, this.random);
    const retryAt = waitMs === undefined ? undefined : now + waitMs;
    const about = { task, reason, ...(blob !== undefined && { blob }) };
    const failure = { ...about, attempts, retryAt, isExhausted: isExhausted(retry, attempts) };
    this.failures.set(key, failure);
    if (retry === 'settling') this.settling.add(key);
    else this.settling.delete(key);
    return failure;
  }

  succeeded(task: RunningTask): void {
    this.failures.delete(keyOf(task));
    this.settling.delete(keyOf(task));
  }

  last(task: RunningTask): TaskFailure | undefined {
    return this.failures.get(keyOf(task));
  }

  /** Call when the media change: everything may be tried again. */
  forgetAll(): void {
    this.failures.clear();
    this.settling.clear();
  }
}

/**
 * The key of a task. An image that several bundles name is
 * pulled once for all of them, and fails for all of them.
 */
export function keyOf(task: RunningTask): string {
  return task.kind === 'pull' ? `pull ${task.reference}` : `${task.kind} ${task.bundleId}`;
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

/** Whether no quick try is left. */
function isExhausted(retry: RetryPolicy, attempts: number): boolean {
  if (retry === 'observed') return false;
  if (retry === 'settling') return attempts > SETTLING_TRIES + BACKOFF_TRIES;
  return (retry !== 'backoff' && retry !== 'space') || attempts > BACKOFF_TRIES;
}
