import type { MediumId } from '../../domain/model/medium.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { Clock } from '../../platform/clock.ts';
import { keyOf } from './failures.ts';

/** How a task ended: with a pulled image, or in any other way. */
export type TaskEnd = 'pulled' | 'ended';

/** Long effects that run in parallel to the loop, each with its own AbortController. */
export interface Tasks {
  running(): readonly RunningTask[];
  /**
   * Starts `work` unless the same task runs already. `onEnd` is called at the end. An error of
   * `work` is ignored.
   */
  start(task: RunningTask, work: (signal: AbortSignal) => Promise<TaskEnd>): void;
  /** Aborts the task if it runs. `onEnd` is called at the end. */
  cancel(task: RunningTask): void;
  /** Aborts all tasks and waits until they have ended. */
  cancelAll(): Promise<void>;
}

/**
 * Creates the table of tasks. `onEnd` is called after each end, when the task is no longer listed.
 */
export function createTasks(onEnd: (task: RunningTask, end: TaskEnd) => void): Tasks {
  const table = new Map<string, { task: RunningTask; controller: AbortController; ended: Promise<void> }>();
  return {
    running: () => [...table.values()].map((entry) => entry.task),
    start: (task, work) => {
      const key = keyOf(task);
      if (table.has(key)) return;
      const controller = new AbortController();
      const ended = work(controller.signal)
        .catch((): TaskEnd => 'ended')
        .then((end) => {
          table.delete(key);
          onEnd(task, end);
        });
      table.set(key, { task, controller, ended });
    },
    cancel: (task) => table.get(keyOf(task))?.controller.abort(),
    cancelAll: async () => {
      const entries = [...table.values()];
      for (const entry of entries) entry.controller.abort();
      await Promise.allSettled(entries.map((entry) => entry.ended));
    },
  };
}

/**
 * Pause before a medium is read again after a failure. Doubled each time, up to {@link
 * PAUSE_MAX_MS}.
 */
const PAUSE_MS = 1_000;
const PAUSE_MAX_MS = 30_000;
/**
 * The longest pause while the node's own disk can't be written, so that work on a medium continues
 * soon after there is space.
 */
const DISK_PAUSE_MAX_MS = 5_000;

/**
 * Mounts and reads media in parallel to the loop, so that a slow or bad stick delays nothing else.
 * One job for each medium.
 */
export interface MediaJobs {
  /** Media that are being mounted or read, or that wait after a failure. */
  busy(): ReadonlySet<MediumId>;
  /** Why a job failed whose medium waits for another try. Undefined when none does. */
  obstacle(): Fault | undefined;
  /**
   * Starts `work` unless the medium is busy. `onFail` reports the error and returns its reason.
   * `onEnd` is called at the end.
   */
  start(mediumId: MediumId, work: (signal: AbortSignal) => Promise<void>, onFail: (error: unknown) => Fault): void;
  /** Aborts all jobs and waits until they have ended. */
  stop(): Promise<void>;
}

/** Creates the table of jobs. `onEnd` is called after each end, and after each failure. */
export function createMediaJobs(clock: Clock, onEnd: () => void): MediaJobs {
  const ending = new AbortController();
  const jobs = new Map<MediumId, Promise<void>>();
  const faults = new Map<MediumId, { reason: Fault; count: number }>();

  async function run(
    mediumId: MediumId,
    work: (signal: AbortSignal) => Promise<void>,
    onFail: (error: unknown) => Fault,
  ): Promise<void> {
    try {
      await work(ending.signal);
      faults.delete(mediumId);
    } catch (error) {
      if (ending.signal.aborted) return;
      const count = (faults.get(mediumId)?.count ?? 0) + 1;
      const reason = onFail(error);
      faults.set(mediumId, { reason, count });
      onEnd();
      const longestMs = isDiskTrouble(reason) ? DISK_PAUSE_MAX_MS : PAUSE_MAX_MS;
      const pauseMs = Math.min(longestMs, PAUSE_MS * 2 ** Math.min(10, count - 1));
      await clock.sleep(pauseMs, ending.signal).catch(() => undefined);
    }
  }

  return {
    busy: () => new Set(jobs.keys()),
    // A failure of a medium that was unplugged no longer counts.
    obstacle: () => [...faults].find(([mediumId]) => jobs.has(mediumId))?.[1].reason,
    start: (mediumId, work, onFail) => {
      if (jobs.has(mediumId) || ending.signal.aborted) return;
      const ended = run(mediumId, work, onFail).finally(() => {
        jobs.delete(mediumId);
        onEnd();
      });
      jobs.set(mediumId, ended);
    },
    stop: async () => {
      ending.abort();
      await Promise.allSettled(jobs.values());
    },
  };
}
