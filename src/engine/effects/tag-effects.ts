import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import { isAnyDiskTrouble } from '../../domain/preload/disk-trouble.ts';
import { tagGoalsOf, tagsGivenLately } from '../../domain/release/tags.ts';
import { contestEvents, restoredMessage } from '../../domain/report/tag-events.ts';
import type { RunningTask, TagGiven } from '../../domain/state/memory.ts';
import { stampAfter } from '../../domain/state/stamp.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { StateStore } from '../../ports/state.ts';
import type { FloorKeeper } from '../keepers/floor-keeper.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import { type FailureLedger, isSettlingTold, retryOf } from '../tasks/failures.ts';
import { type ActivationDependencies, activateBundle, giveTags } from './activate-task.ts';

/** A task that moves tags. */
export type TagTask = Exclude<RunningTask, { kind: 'pull' }>;

/** What {@link createTagEffects} acts on. */
export interface TagEffectDependencies extends ActivationDependencies {
  readonly clock: Clock;
  readonly store: StateStore;
  readonly log: Log;
  readonly recorder: EventRecorder;
  readonly failures: FailureLedger;
  readonly floorKeeper: FloorKeeper;
}

/** The effects that move tags, and the memory of what was given again. */
export interface TagEffects {
  /** What the task does, to be run beside the loop. It records how it failed. */
  workOf(task: TagTask, bundle: StoredBundle, assessment: Assessment): (signal: AbortSignal) => Promise<void>;
  given(): readonly TagGiven[];
  /** Tells once of tags that are left alone from now on, and forgets what has settled. */
  seen(assessment: Assessment): void;
}

/** How often the same failure is told: the first time, and then each so-many-th. */
const TOLD_EVERY = 5;
/** As often, while a disk takes no writes: it is tried every 10 s. */
const SPACE_TOLD_EVERY = 30;

/** {@link TagEffects} that go on with what the store knows to have been given. */
export function createTagEffects(deps: TagEffectDependencies): TagEffects {
  const { clock, store, log, recorder, failures, floorKeeper } = deps;
  let given = store.tagsGiven();
  let isUnsaved = false;
  let isTold = false;
  /** Contested tags of which it was told. */
  const told = new Set<string>();

  /** What can't be stored is known on while the daemon runs, and stored as soon as that works. */
  function keep(next: readonly TagGiven[]): void {
    isUnsaved ||= next.length !== given.length;
    given = next;
    if (!isUnsaved) return;
    try {
      store.setTagsGiven(given);
      isUnsaved = false;
      isTold = false;
    } catch (error) {
      if (!isTold) log.warn({ err: error }, `How often tags were given again could not be kept: ${reasonOf(error)}`);
      isTold = true;
    }
  }

  async function activate(task: TagTask, bundle: StoredBundle, signal: AbortSignal): Promise<void> {
    const count = await activateBundle(bundle, deps, signal);
    // Before it is recorded: what is activated must never be known to the database alone.
    await floorKeeper.raise(bundle.payload.name, bundle.payload.sequence);
    const message = `${bundleTitle(bundle.payload)} is activated: ${count === 1 ? '1 tag names its image' : `${count} tags name its images`} now`;
    const event = { kind: 'bundleActivated', level: 'info', bundleId: bundle.bundleId, message } as const;
    const at = stampAfter(store.load().bundles, clock.now());
    store.mark(bundle.bundleId, 'activatedAt', { ...recorder.row(event), at });
    failures.succeeded(task);
    const tags = new Set(tagGoalsOf(bundle).map(({ tag }) => tag));
    keep(given.filter(({ tag }) => !tags.has(tag)));
    recorder.log(event);
  }

  async function restore(
    task: Extract<TagTask, { kind: 'restore-tags' }>,
    bundle: StoredBundle,
    { tags: { stray } }: Assessment,
    signal: AbortSignal,
  ): Promise<void> {
    const goals = tagGoalsOf(bundle).filter(({ tag }) => task.tags.includes(tag));
    const restored = new Set(await giveTags(goals, bundle, deps, signal));
    failures.succeeded(task);
    if (restored.size === 0) return;
    keep([...given, ...[...restored].map((tag) => ({ tag, at: clock.now() }))]);
    const lost = stray.filter(({ tag }) => restored.has(tag));
    const message = restoredMessage(lost, bundle);
    recorder.tell({ kind: 'tagsRestored', level: 'warn', bundleId: bundle.bundleId, message });
  }

  return {
    workOf: (task, bundle, assessment) => async (signal) => {
      try {
        if (task.kind === 'activate') await activate(task, bundle, signal);
        else await restore(task, bundle, assessment, signal);
      } catch (error) {
        signal.throwIfAborted();
        // It was interrupted, and is begun anew when the runtime runs.
        if (error instanceof AppError && error.code === 'runtime/stopping') return;
        const isSettling = error instanceof AppError && error.code === 'engine/mirror-unused';
        const reason = failureOf(task, bundle, error);
        const retry = isSettling ? 'settling' : retryOf(reason);
        const { attempts } = failures.note(task, reason, retry, clock.now());
        const toldEvery = retry === 'space' ? SPACE_TOLD_EVERY : TOLD_EVERY;
        if (isSettling ? !isSettlingTold(attempts) : attempts > 1 && attempts % toldEvery !== 0) return;
        const { message } = reason;
        const kind = task.kind === 'activate' ? 'activationFailed' : 'tagsNotRestored';
        recorder.tell({ kind, level: 'warn', bundleId: bundle.bundleId, message });
      }
    },
    given: () => given,
    seen: (assessment) => {
      const { settled, contested } = assessment.tags;
      for (const event of contestEvents(assessment, told)) recorder.tell(event);
      for (const { tag } of contested) told.add(tag);
      for (const tag of settled) told.delete(tag);
      keep(tagsGivenLately(given, settled, clock.now()));
    },
  };
}

function failureOf(task: TagTask, { payload }: StoredBundle, error: unknown) {
  const title = bundleTitle(payload);
  if (task.kind === 'activate') {
    const code = error instanceof AppError ? error.code : 'engine/activation';
    return { code, message: `${title} could not be activated: ${reasonOf(error)}` };
  }
  const what = `${formatCount(task.tags.length, 'tag')} of ${title}, first ${task.tags[0]},`;
  const code = error instanceof AppError && isAnyDiskTrouble(error) ? error.code : 'engine/tags';
  return { code, message: `${what} could not be given to the right image again: ${reasonOf(error)}` };
}
