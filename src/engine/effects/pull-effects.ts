import type { Assessment } from '../../domain/assess/assess.ts';
import type { Image } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { repositoryOf } from '../../domain/model/reference.ts';
import type { RunningTask, TaskFailure } from '../../domain/state/memory.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { Durability, PreloadStore } from '../../ports/state.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import {
  type AboutImage,
  mirrorsUnusedEvent,
  pulledElsewhereEvent,
  pulledEvent,
  pullFailedEvent,
} from '../reporting/pull-messages.ts';
import { type FailureLedger, isSettlingReported } from '../tasks/failures.ts';
import type { TaskEnd } from '../tasks/tasks.ts';
import type { MirrorGate } from './mirror-gate.ts';
import type { PinRequests } from './pin-effects.ts';
import { type PullDependencies, type PullEnd, type PullFault, pullImage } from './pull-task.ts';

/** The adapters and the state of pulls. */
export interface PullEffects extends Omit<PullDependencies, 'online'> {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<PreloadStore, 'setPulledByUs'> & Pick<Durability, 'settled'>;
  readonly recorder: Pick<EventRecorder, 'tell'>;
  readonly failures: FailureLedger;
  readonly mirrorGate: Pick<MirrorGate, 'pass'>;
  readonly pinRequests: Pick<PinRequests, 'unenforced'>;
  /** Bundles for which a warning was already given that an image came from another source. */
  readonly reportedElsewhere: Set<BundleId>;
}

/** The task that pulls one image. */
export type PullTask = Extract<RunningTask, { readonly kind: 'pull' }>;

/** One pull, with the fields of its events. */
interface Pull {
  readonly task: PullTask;
  readonly image: Image;
  readonly bundle: StoredBundle;
  readonly about: AboutImage;
}

/**
 * Pulls one image, and records the result.
 *
 * INVARIANT: the mark that stickpin pulls this image is on the disk before the pull starts. So
 * stickpin may remove the image also after a crash.
 *
 * @throws AppError `store/…` when the mark can't be written; whatever aborted `signal`
 */
export async function runPull(
  effects: PullEffects,
  task: PullTask,
  bundle: StoredBundle,
  assessment: Assessment,
  signal: AbortSignal,
): Promise<TaskEnd> {
  const image = bundle.contents.images.find((candidate) => candidate.reference === task.reference);
  if (image === undefined) return 'ended';
  const medium = assessment.bundles.find((entry) => entry.bundle.bundleId === bundle.bundleId)?.media[0];
  const about = { bundleId: bundle.bundleId, digest: image.digest, ...(medium !== undefined && { medium }) };
  const online = task.online === true;
  if (!online) await passGate(effects, image.reference, assessment, about, signal);
  if (!assessment.life.foreign.has(image.digest)) {
    notePulledByUs(effects, image.reference, true);
    await effects.store.settled(signal);
  }
  const end = await pullImage(image, bundle, { ...effects, online }, signal);
  return recordEnd(effects, { task, image, bundle, about }, end);
}

function recordEnd(effects: PullEffects, pull: Pull, end: PullEnd): TaskEnd {
  switch (end.kind) {
    case 'interrupted':
      return 'ended';
    case 'pulled':
      return recordPulled(effects, pull, end.isElsewhere);
    case 'failed':
      recordFailure(effects, pull, end);
      return 'ended';
  }
}

/**
 * Notes a failure `engine/not-listed`; the next round removes it when the runtime lists the image.
 * Without it an image that is never listed would be pulled again and again without a pause.
 */
function recordPulled(effects: PullEffects, { task, image, bundle, about }: Pull, isElsewhere: boolean): TaskEnd {
  const { failures, recorder, pinRequests, clock } = effects;
  const { reference } = image;
  const before = failures.last(task);
  if (pinRequests.unenforced.has(reference)) pinRequests.unenforced.set(reference, true);
  const message = `${reference} was pulled, but the runtime does not list it`;
  failures.note(task, { code: 'engine/not-listed', message }, 'backoff', clock.now());
  if (before?.reason.code === 'engine/not-listed') return 'ended';
  recorder.tell(
    isElsewhere
      ? pulledElsewhereEvent(reference, elsewhereLevel(effects, bundle), about)
      : pulledEvent(reference, about),
  );
  return 'pulled';
}

/**
 * One warning for each bundle, since the cause is the same for all its images. The image is right,
 * but it was not read from the stick.
 */
function elsewhereLevel({ reportedElsewhere }: PullEffects, { bundleId }: StoredBundle): 'debug' | 'warn' {
  const level = reportedElsewhere.has(bundleId) ? 'debug' : 'warn';
  reportedElsewhere.add(bundleId);
  return level;
}

function recordFailure(effects: PullEffects, { task, image, about }: Pull, fault: PullFault): void {
  const { failures, recorder, clock } = effects;
  const before = failures.last(task);
  notePulledByUs(effects, image.reference, false);
  const failure = failures.note(task, fault.reason, fault.retry, clock.now(), fault.blob);
  if (!isWorthReporting(fault, failure, before)) return;
  const isTriedSoon = fault.retry === 'backoff' || fault.retry === 'settling';
  const triedAgain = isTriedSoon ? failure.attempts : undefined;
  recorder.tell(pullFailedEvent({ ...fault, triedAgain }, { ...about, image: image.reference }));
}

/**
 * Only the first of several equal failures is reported. The status of the bundle shows that they
 * continue.
 */
function isWorthReporting(
  { reason, retry }: PullFault,
  { attempts }: Pick<TaskFailure, 'attempts'>,
  before: TaskFailure | undefined,
): boolean {
  // refusals.ts reports the refusals of a policy together.
  if (reason.code === 'runtime/policy') return false;
  if (retry === 'settling') return isSettlingReported(attempts);
  return before?.reason.message !== reason.message;
}

/**
 * Waits for the mirrors. A pull that begins before the runtime uses them may get the image from
 * another registry instead of the stick.
 */
async function passGate(
  { mirrorGate, recorder }: PullEffects,
  reference: string,
  { mirrors }: Assessment,
  about: AboutImage,
  signal: AbortSignal,
): Promise<void> {
  const end = await mirrorGate.pass(repositoryOf(reference), mirrors, signal);
  if (end === 'timed-out') recorder.tell(mirrorsUnusedEvent(about));
}

/**
 * Never throws. An image without this record is never removed by stickpin, which costs only space.
 */
function notePulledByUs({ store, log }: PullEffects, reference: string, isPulledByUs: boolean): void {
  try {
    store.setPulledByUs(reference, isPulledByUs);
  } catch (error) {
    log.warn({ err: error }, `That ${reference} is ours to remove could not be noted: ${reasonOf(error)}`);
  }
}
