import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { isAnyDiskTrouble } from '../../domain/preload/space.ts';
import { automaticCause } from '../../domain/release/lifecycle.ts';
import { hasBegun } from '../../domain/release/recorded-phase.ts';
import { tagGoalsOf, tagsGivenLately } from '../../domain/release/tags.ts';
import { contestEvents, restoredMessage } from '../../domain/report/events/image-events.ts';
import type { Policy } from '../../domain/settings/settings.ts';
import type { RunningTask, TagGiven } from '../../domain/state/memory.ts';
import { latestStamp, type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { Durability, EventLog, MilestoneStore, StateReader, TagStore } from '../../ports/state.ts';
import type { FloorKeeper } from '../keepers/floor-keeper.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import { type FailureLedger, isSettlingReported, type RetryPolicy, retryOf } from '../tasks/failures.ts';
import { type ActivationDependencies, activateBundle, giveTags } from './activate-task.ts';

/** A task that moves tags. */
type TagTask = Exclude<RunningTask, { readonly kind: 'pull' }>;

/** The adapters of tasks that move tags. */
export interface TagEffectDependencies extends ActivationDependencies {
  readonly clock: Clock;
  readonly store: StateReader &
    Pick<Durability, 'settled'> &
    Pick<EventLog, 'events'> &
    Pick<MilestoneStore, 'mark' | 'setActivationBegun'> &
    TagStore;
  readonly policy: Pick<Policy, 'update'>;
  readonly log: Log;
  readonly recorder: EventRecorder;
  readonly failures: FailureLedger;
  readonly floorKeeper: Pick<FloorKeeper, 'raise'>;
}

/** The adapters, and the memory of restored tags. */
export interface TagEffects extends TagEffectDependencies {
  given: readonly TagGiven[];
  /** Whether `given` must still be written to the store. */
  isUnsaved: boolean;
  /** Whether the failure to write it was logged. */
  isFailureLogged: boolean;
  /** Contested tags that were already reported. */
  readonly reported: Set<string>;
}

/** The same failure is reported the first time, and then every this many times. */
const REPORTED_EVERY = 5;
/** The same while a disk can't be written. It is tried every 10 s. */
const SPACE_REPORTED_EVERY = 30;
/** In so many of the newest events of a bundle its request is looked for. */
const SEARCHED_EVENTS = 1_000;

/** Starts with the restored tags from the store. */
export function createTagEffects(deps: TagEffectDependencies): TagEffects {
  return { ...deps, given: deps.store.tagsGiven(), isUnsaved: false, isFailureLogged: false, reported: new Set() };
}

/**
 * Moves the tags of the task. A failure is recorded, not thrown. @throws whatever aborted `signal`
 */
export async function runTagTask(
  effects: TagEffects,
  task: TagTask,
  bundle: StoredBundle,
  assessment: Assessment,
  signal: AbortSignal,
): Promise<void> {
  try {
    if (task.kind === 'activate') await activate(effects, task, bundle, signal);
    else await restore(effects, task, bundle, assessment, signal);
  } catch (error) {
    signal.throwIfAborted();
    // Interrupted, not failed: the task starts again when the runtime runs.
    if (error instanceof AppError && error.code === 'runtime/stopping') return;
    recordFailure(effects, task, bundle, error);
  }
}

/**
 * Reports each newly contested tag once, and forgets tags that have settled and activations that
 * are given up.
 */
export function followTags(effects: TagEffects, assessment: Assessment, running: readonly RunningTask[]): void {
  const { reported, recorder, clock } = effects;
  const { settled, contested } = assessment.tags;
  for (const event of contestEvents(assessment, reported)) recorder.tell(event);
  for (const { tag } of contested) reported.add(tag);
  for (const tag of settled) reported.delete(tag);
  keep(effects, tagsGivenLately(effects.given, settled, clock.now()));
  forgetGivenUp(effects, assessment, running);
}

/**
 * Something other than time holds an activation that had begun: the present release gets its tags
 * back, and the next try begins anew, in its window.
 */
function forgetGivenUp({ store, log }: TagEffects, { bundles }: Assessment, running: readonly RunningTask[]): void {
  if (running.some(({ kind }) => kind === 'activate')) return;
  for (const { bundle, activationDue } of bundles) {
    if (!hasBegun(bundle) || activationDue) continue;
    try {
      store.setActivationBegun(bundle.bundleId, undefined);
    } catch (error) {
      log.debug({ err: error }, 'That an activation was given up is recorded in a later round');
    }
  }
}

/**
 * INVARIANT: that tags begin to move is on the disk before the first one does, so that a restart
 * between two tags does not leave them as they are when a window has closed.
 *
 * INVARIANT: the floor is raised before the activation is recorded. Otherwise only the database
 * would have the sequence, and it may be lost or restored from an old copy.
 */
async function activate(effects: TagEffects, task: TagTask, bundle: StoredBundle, signal: AbortSignal): Promise<void> {
  const { store, recorder, failures, floorKeeper, clock } = effects;
  const before = latestStamp(store.load().bundles);
  if (!hasBegun(bundle)) store.setActivationBegun(bundle.bundleId, stampAfter(store.load().bundles, clock.now()));
  await store.settled(signal);
  const count = await activateBundle(bundle, effects, signal);
  if (bundle.resetAt === undefined) await floorKeeper.raise(bundle.payload.name, bundle.payload.sequence);
  const message = `${bundleTitle(bundle.payload)} is activated: ${count === 1 ? '1 tag names its image' : `${count} tags name its images`} now`;
  const about = { bundleId: bundle.bundleId, message, by: causeOf(effects, bundle) };
  const event = { kind: 'bundleActivated', level: 'info', ...about } as const;
  const at = activationStamp(bundle, store.load().bundles, before, clock.now());
  store.mark(bundle.bundleId, 'activatedAt', { ...recorder.row(event), at });
  failures.succeeded(task);
  const tags = new Set(tagGoalsOf(bundle).map(({ tag }) => tag));
  keep(
    effects,
    effects.given.filter(({ tag }) => !tags.has(tag)),
  );
  recorder.log(event);
}

/**
 * When the activation counts as done. What a person or a rollback asked for while the tags moved,
 * later than `before`, comes after it: otherwise it would be forgotten, although it was accepted.
 */
function activationStamp(
  { bundleId, payload }: StoredBundle,
  bundles: readonly StoredBundle[],
  before: number,
  now: number,
): number {
  const asked = bundles
    .filter((other) => other.payload.name === payload.name)
    .map((other) => (other.bundleId === bundleId ? other.rolledBackAt : other.activationRequestedAt) ?? 0)
    .filter((at) => at > before);
  return asked.length === 0 ? stampAfter(bundles, now) : Math.min(...asked) - 1;
}

/** Who asked for the activation, or what let it happen. The request is recorded with its time. */
function causeOf({ store, policy }: TagEffects, bundle: StoredBundle): string {
  const { bundleId, activationRequestedAt } = bundle;
  if (activationRequestedAt === undefined) return automaticCause(bundle, policy);
  const asked = store.events(bundleId, SEARCHED_EVENTS).findLast(({ at }) => at === activationRequestedAt);
  return asked?.by ?? 'unknown user: activate';
}

async function restore(
  effects: TagEffects,
  task: Extract<TagTask, { readonly kind: 'restore-tags' }>,
  bundle: StoredBundle,
  { tags: { stray } }: Assessment,
  signal: AbortSignal,
): Promise<void> {
  const { recorder, failures, clock } = effects;
  const wanted = new Set(task.tags);
  const goals = tagGoalsOf(bundle).filter(({ tag }) => wanted.has(tag));
  const restored = new Set(await giveTags(goals, bundle, effects, signal));
  failures.succeeded(task);
  if (restored.size === 0) return;
  keep(effects, [...effects.given, ...[...restored].map((tag) => ({ tag, at: clock.now() }))]);
  const lost = stray.filter(({ tag }) => restored.has(tag));
  const message = restoredMessage(lost, bundle);
  recorder.tell({ kind: 'tagsRestored', level: 'warn', bundleId: bundle.bundleId, message });
}

/** Keeps the list in memory while it can't be written, and writes it as soon as that works. */
function keep(effects: TagEffects, next: readonly TagGiven[]): void {
  effects.isUnsaved ||= next.length !== effects.given.length;
  effects.given = next;
  if (!effects.isUnsaved) return;
  try {
    effects.store.setTagsGiven(next);
    effects.isUnsaved = false;
    effects.isFailureLogged = false;
  } catch (error) {
    if (!effects.isFailureLogged) {
      effects.log.warn({ err: error }, `How often tags were given again could not be kept: ${reasonOf(error)}`);
    }
    effects.isFailureLogged = true;
  }
}

function recordFailure(effects: TagEffects, task: TagTask, bundle: StoredBundle, error: unknown): void {
  const isSettling = error instanceof AppError && error.code === 'engine/mirror-unused';
  const reason = failureOf(task, bundle, error);
  const retry = isSettling ? 'settling' : retryOf(reason);
  const { attempts } = effects.failures.note(task, reason, retry, effects.clock.now());
  if (!isReported(retry, attempts)) return;
  const kind = task.kind === 'activate' ? 'activationFailed' : 'tagsNotRestored';
  effects.recorder.tell({ kind, level: 'warn', bundleId: bundle.bundleId, message: reason.message });
}

function isReported(retry: RetryPolicy, attempts: number): boolean {
  if (retry === 'settling') return isSettlingReported(attempts);
  return attempts <= 1 || attempts % (retry === 'space' ? SPACE_REPORTED_EVERY : REPORTED_EVERY) === 0;
}

function failureOf(task: TagTask, { payload }: StoredBundle, error: unknown): Fault {
  const title = bundleTitle(payload);
  if (task.kind === 'activate') {
    const code = error instanceof AppError ? error.code : 'engine/activation';
    return { code, message: `${title} could not be activated: ${reasonOf(error)}` };
  }
  const what = `${formatCount(task.tags.length, 'tag')} of ${title}, first ${task.tags[0]},`;
  const code = error instanceof AppError && isAnyDiskTrouble(error) ? error.code : 'engine/tags';
  return { code, message: `${what} could not be given to the right image again: ${reasonOf(error)}` };
}
