import type { Assessment } from '../../domain/assess/assess.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { retryOf, type TaskEnd } from '../tasks/tasks.ts';
import { decidedBundle, type EffectContext, type Executors, storedBundle } from './executor.ts';
import { forgetExecutors } from './forget-effects.ts';
import { contentExecutors, pinExecutors } from './image-effects.ts';
import { adoptionExecutors, mediaExecutors } from './media-effects.ts';
import { PullTasks } from './pull-effects.ts';
import { lifecycleExecutors, recordExecutors } from './release-effects.ts';
import { TagTasks } from './tag-effects.ts';

export class Effects {
  readonly tags: TagTasks;
  readonly executors: Executors;
  private readonly pulls: PullTasks;

  constructor(readonly context: EffectContext) {
    this.tags = new TagTasks(context);
    this.pulls = new PullTasks(context);
    this.executors = {
      ...mediaExecutors(context),
      ...adoptionExecutors(context),
      ...pinExecutors(context),
      ...recordExecutors(context),
      ...lifecycleExecutors(context),
      ...contentExecutors(context),
      ...forgetExecutors(context),
      start: ({ task }, assessment) => this.start(task, assessment),
      cancel: ({ task }) => context.tasks.cancel(task),
      'run-hook': ({ run }) => context.hookKeeper.start(run),
    };
  }

  /**
   * Starts a task beside the rounds, unless it runs or its preload was cancelled since.
   * INVARIANT: a task is listed at once, so that it can be cancelled. Before its first action it
   * waits until all records are on the disk.
   */
  start(task: RunningTask, assessment: Assessment): void {
    const { store, tasks } = this.context;
    const isPull = task.kind === 'pull';
    // A queued pull starts without a round.
    const bundle = isPull ? storedBundle(store, task.bundleId) : decidedBundle(store, task.bundleId, assessment);
    // A round that waited for the disk may have decided before the cancellation.
    if (bundle === undefined || (isPull && bundle.cancelled !== undefined)) return;
    tasks.start(task, async (signal) => {
      try {
        await store.settled(signal);
        signal.throwIfAborted();
        return await this.run(task, bundle, assessment, signal);
      } catch (error) {
        if (!signal.aborted) this.recordFailure(task, error);
        return 'ended';
      }
    });
  }

  private async run(
    task: RunningTask,
    bundle: StoredBundle,
    assessment: Assessment,
    signal: AbortSignal,
  ): Promise<TaskEnd> {
    if (task.kind === 'pull') return this.pulls.run(task, bundle, assessment, signal);
    await this.tags.run(task, bundle, assessment, signal);
    return 'ended';
  }

  private recordFailure(task: RunningTask, error: unknown): void {
    const { failures, clock, log } = this.context;
    const code = error instanceof AppError ? error.code : 'engine/task';
    const reason = { code, message: reasonOf(error) };
    failures.note(task, reason, retryOf(reason), clock.now());
    log.error({ err: error, bundleId: task.bundleId }, `A ${task.kind} failed: ${reasonOf(error)}`);
  }
}
