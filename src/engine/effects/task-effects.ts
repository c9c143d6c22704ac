import type { Assessment } from '../../domain/assess/assess.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { Durability, StateReader } from '../../ports/state.ts';
import type { HookKeeper } from '../keepers/hook-keeper.ts';
import { type FailureLedger, retryOf } from '../tasks/failures.ts';
import type { TaskEnd, Tasks } from '../tasks/tasks.ts';
import { type Executors, storedBundle } from './executor.ts';
import { type PullEffects, runPull } from './pull-effects.ts';
import { runTagTask, type TagEffects } from './tag-effects.ts';

/** The adapters of {@link taskExecutors}. */
export interface TaskEffectDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: StateReader & Pick<Durability, 'settled'>;
  readonly tasks: Pick<Tasks, 'start' | 'cancel'>;
  readonly failures: FailureLedger;
  readonly pulls: PullEffects;
  readonly tags: TagEffects;
  readonly hookKeeper: Pick<HookKeeper, 'start'>;
}

/**
 * Start and cancel long effects, which run in parallel to the rounds.
 *
 * INVARIANT: a task is listed at once, so that it can be cancelled. Before its first action it
 * waits until all records are on the disk.
 */
export function taskExecutors(deps: TaskEffectDependencies): Executors<'start' | 'cancel' | 'run-hook'> {
  return {
    start: ({ task }, assessment) => startTask(deps, task, assessment),
    cancel: ({ task }) => deps.tasks.cancel(task),
    'run-hook': ({ run }) => deps.hookKeeper.start(run),
  };
}

/**
 * Starts a task, unless it runs, its bundle is not known, or its preload was cancelled since it was
 * decided.
 */
export function startTask(deps: TaskEffectDependencies, task: RunningTask, assessment: Assessment): void {
  const bundle = storedBundle(deps.store, task.bundleId);
  // A round that waited for the disk may have decided before the preload was cancelled.
  if (bundle === undefined || (task.kind === 'pull' && bundle.cancelled !== undefined)) return;
  deps.tasks.start(task, async (signal) => {
    try {
      await deps.store.settled(signal);
      signal.throwIfAborted();
      return await runTask(deps, task, bundle, assessment, signal);
    } catch (error) {
      if (!signal.aborted) recordFailure(deps, task, error);
      return 'ended';
    }
  });
}

async function runTask(
  { pulls, tags }: TaskEffectDependencies,
  task: RunningTask,
  bundle: StoredBundle,
  assessment: Assessment,
  signal: AbortSignal,
): Promise<TaskEnd> {
  if (task.kind === 'pull') return runPull(pulls, task, bundle, assessment, signal);
  await runTagTask(tags, task, bundle, assessment, signal);
  return 'ended';
}

function recordFailure({ failures, clock, log }: TaskEffectDependencies, task: RunningTask, error: unknown): void {
  const code = error instanceof AppError ? error.code : 'engine/task';
  const reason = { code, message: reasonOf(error) };
  failures.note(task, reason, retryOf(reason), clock.now());
  log.error({ err: error, bundleId: task.bundleId }, `A ${task.kind} failed: ${reasonOf(error)}`);
}
