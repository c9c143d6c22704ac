import type { RunningTask } from '../domain/state.ts';
import { keyOf } from './failures.ts';

/** The long effects that run beside the loop, each under its own AbortController. */
export interface Tasks {
  running(): readonly RunningTask[];
  /** Starts `work` unless the same task runs already. `work` must not throw; its end kicks the loop. */
  start(task: RunningTask, work: (signal: AbortSignal) => Promise<void>): void;
  /** Aborts the task, if it runs; its end kicks the loop. */
  cancel(task: RunningTask): void;
  /** Aborts all and waits for their ends. */
  cancelAll(): Promise<void>;
}

/** No task runs yet. `onEnd` is called after each end. */
export function createTasks(onEnd: () => void): Tasks {
  const table = new Map<string, { task: RunningTask; controller: AbortController; ended: Promise<void> }>();
  return {
    running: () => [...table.values()].map((entry) => entry.task),
    start: (task, work) => {
      const key = keyOf(task);
      if (table.has(key)) return;
      const controller = new AbortController();
      const ended = work(controller.signal).finally(() => {
        table.delete(key);
        onEnd();
      });
      ended.catch(() => undefined);
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
