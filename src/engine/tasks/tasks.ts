import type { RunningTask } from '../../domain/state/memory.ts';
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
