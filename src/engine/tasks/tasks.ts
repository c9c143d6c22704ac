import type { Fault } from '../../domain/model/reason.ts';
import { isAnyDiskTrouble } from '../../domain/preload/space.ts';
import type { FailedBlob } from '../../domain/state/checks.ts';
import type { RunningTask, TaskFailure } from '../../domain/state/memory.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import { defined } from '../../platform/defined.ts';

export type RetryPolicy =
  /**
   * Five tries after 1 s doubling to 10 s, each up to a quarter shorter. Then every five minutes.
   */
  | 'backoff'
  /** The runtime does not use its new configuration yet: 30 tries every 300 ms, then `backoff`. */
  | 'settling'
  /** Ten tries every half second, then every ten seconds: the missing part is observed. */
  | 'observed'
  /** `backoff`, then every ten seconds: nothing signals that a disk has room again. */
  | 'space'
  /** Every five minutes from the first time. Only a person can repair the cause. */
  | 'person'
  /** Only after the media change. */
  | 'media';

const BACKOFF_TRIES = 5;
/**
 * Largest random part by which a pause is shorter. It separates pulls that failed at the same time.
 */
const JITTER = 0.25;
/** Quick tries while the runtime does not use its new configuration. */
const SETTLING_TRIES = 30;
const LATER_MS = 5 * 60_000;
const SPACE_LATER_MS = 10_000;
/** Long enough that an immediate failure can't keep the processor busy. */
const OBSERVED_MS = 500;
const OBSERVED_TRIES = 10;
const OBSERVED_LATER_MS = 10_000;

/** Tries after which unused mirrors are reported. */
const SETTLING_REPORTED = 10;

/** Once after {@link SETTLING_REPORTED} tries, and once after the last quick one. */
export function isSettlingReported(attempts: number): boolean {
  return attempts === SETTLING_REPORTED || attempts === SETTLING_TRIES + 1;
}

export function retryOf(reason: Fault): RetryPolicy {
  return isAnyDiskTrouble(reason) ? 'space' : 'backoff';
}

/** It is in memory only: after a restart everything is tried again. */
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
    const failure = {
      task,
      reason,
      ...defined({ blob }),
      attempts,
      retryAt,
      isExhausted: isExhausted(retry, attempts),
    };
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

  forgetAll(): void {
    this.failures.clear();
    this.settling.clear();
  }
}

/** An image that several bundles name is pulled once for all, and fails for all. */
function keyOf(task: RunningTask): string {
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
  return Math.round(pauseAfter(tries, { firstMs: 1_000, longestMs: 10_000 }) * (1 - JITTER * random()));
}

function isExhausted(retry: RetryPolicy, attempts: number): boolean {
  if (retry === 'observed') return false;
  if (retry === 'settling') return attempts > SETTLING_TRIES + BACKOFF_TRIES;
  return (retry !== 'backoff' && retry !== 'space') || attempts > BACKOFF_TRIES;
}

export type TaskEnd = 'pulled' | 'ended';

/** Long effects beside the rounds, each with its own AbortController. */
export class Tasks {
  private readonly table = new Map<string, { task: RunningTask; controller: AbortController; ended: Promise<void> }>();

  /** @param onEnd called when the task is no longer listed */
  constructor(private readonly onEnd: (task: RunningTask, end: TaskEnd) => void) {}

  running(): readonly RunningTask[] {
    return [...this.table.values()].map((entry) => entry.task);
  }

  /** Starts `work` unless the same task runs. An error of `work` is ignored. */
  start(task: RunningTask, work: (signal: AbortSignal) => Promise<TaskEnd>): void {
    const key = keyOf(task);
    if (this.table.has(key)) return;
    const controller = new AbortController();
    const ended = work(controller.signal)
      .catch((): TaskEnd => 'ended')
      .then((end) => {
        this.table.delete(key);
        this.onEnd(task, end);
      });
    this.table.set(key, { task, controller, ended });
  }

  cancel(task: RunningTask): void {
    this.table.get(keyOf(task))?.controller.abort();
  }

  async cancelAll(): Promise<void> {
    const entries = [...this.table.values()];
    for (const entry of entries) entry.controller.abort();
    await Promise.allSettled(entries.map((entry) => entry.ended));
  }
}
