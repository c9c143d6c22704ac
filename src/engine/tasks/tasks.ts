import type { RunningTask } from '../../domain/state/memory.ts';
import { keyOf } from './failures.ts';

/** How a task ended: with an image that the runtime has pulled, or in any other way. */
export type TaskEnd = 'pulled' | 'ended';

/** The long effects that run beside the loop, each under its own AbortController. */
export interface Tasks {
  running(): readonly RunningTask[];
  /** Starts `work` unless the same task runs already. `work` must not throw; its end is told. */
  start(task: RunningTask, work: (signal: AbortSignal) => Promise<TaskEnd>): void;
  /** Aborts the task, if it runs; its end is told. */
  cancel(task: RunningTask): void;
  /** Aborts all and waits for their ends. */
  cancelAll(): Promise<void>;
}

/** No task runs yet. `onEnd` is called after each end, when the task is off the list. */
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
