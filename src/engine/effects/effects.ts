import type { Assessment } from '../../domain/assess/assess.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, assertNever, reasonOf } from '../../platform/app-error.ts';
import { retryOf, type TaskEnd } from '../tasks/tasks.ts';
import { decidedBundle, type EffectContext, storedBundle } from './effect-context.ts';
import { applyMirrors, applyPins, healImages } from './image-effects.ts';
import { adopt, keepForAdoptions, openMedium } from './media-effects.ts';
import { PullTasks } from './pull-effects.ts';
import { followLifecycle, forgetRelease, recordReady, recordSigners, resumePreloads } from './release-effects.ts';
import { TagTasks } from './tag-effects.ts';

export class Effects {
  readonly tags: TagTasks;
  private readonly pulls: PullTasks;

  constructor(readonly context: EffectContext) {
    this.tags = new TagTasks(context);
    this.pulls = new PullTasks(context);
  }

  /** Idempotent. @throws AppError of the adapter; whatever aborted `signal` */
  async execute(effect: Effect, assessment: Assessment, signal: AbortSignal): Promise<void> {
    const { context } = this;
    const { store, clock } = context.ports;
    switch (effect.kind) {
      case 'mount-medium':
      case 'read-medium':
        return openMedium(context, effect, assessment);
      case 'keep-documents':
        return keepForAdoptions(context, effect, assessment);
      case 'adopt-bundle':
        return adopt(context, effect.bundleId, assessment);
      case 'apply-pins':
        return applyPins(context, effect, signal);
      case 'apply-mirrors':
        return applyMirrors(context, effect, signal);
      case 'record-signers':
        return recordSigners(context, effect);
      case 'record-bad-blobs':
        return store.change(effect.bundleId, { badBlobs: effect.badBlobs.length === 0 ? undefined : effect.badBlobs });
      case 'record-ready':
        return recordReady(context, effect.bundleId);
      case 'resume-preload':
        return resumePreloads([effect.bundleId], store, clock.now());
      case 'record-media-left':
        return store.setCancelledMedia(effect.bundleId, effect.media);
      case 'record-soak':
      case 'record-active':
      case 'record-proven':
      case 'record-rolled-back':
      case 'request-activation':
      case 'take-over':
      case 'retire':
      case 'remove-images':
        return followLifecycle(context, effect, assessment, signal);
      case 'forget-release':
        return forgetRelease(context, effect.bundleId, assessment, signal);
      case 'heal-images':
        return healImages(context, effect, signal);
      case 'run-hook':
        return context.hookKeeper.start(effect.run);
      case 'start':
        return this.start(effect.task, assessment);
      case 'cancel':
        return context.tasks.cancel(effect.task);
      default:
        return assertNever(effect);
    }
  }

  /**
   * Starts a task beside the rounds, unless it runs or its preload was cancelled since.
   * INVARIANT: a task is listed at once, so that it can be cancelled. Before its first action it
   * waits until all records are on the disk.
   */
  start(task: RunningTask, assessment: Assessment): void {
    const { ports, tasks } = this.context;
    const { store } = ports;
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
    const { failures, ports } = this.context;
    const code = error instanceof AppError ? error.code : 'engine/task';
    const reason = { code, message: reasonOf(error) };
    failures.note(task, reason, retryOf(reason), ports.clock.now());
    ports.log.error({ err: error, bundleId: task.bundleId }, `A ${task.kind} failed: ${reasonOf(error)}`);
  }
}
