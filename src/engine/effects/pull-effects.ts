import type { Assessment } from '../../domain/assess/assess.ts';
import { allIn } from '../../domain/model/bundle.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { repositoryOf } from '../../domain/model/reference.ts';
import type { RunningTask, TaskFailure } from '../../domain/state/memory.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import {
  type AboutImage,
  mirrorsUnusedEvent,
  pulledElsewhereEvent,
  pulledEvent,
  pullFailedEvent,
} from '../reporting/events.ts';
import { isSettlingReported, type TaskEnd } from '../tasks/tasks.ts';
import type { EffectContext } from './effect-context.ts';
import { type PullEnd, type PulledImage, type PullFault, pullImage } from './pull-task.ts';

export type PullTask = Extract<RunningTask, { readonly kind: 'pull' }>;

interface Pull {
  readonly task: PullTask;
  readonly image: PulledImage;
  readonly bundle: StoredBundle;
  readonly about: AboutImage;
}

export class PullTasks {
  /** One warning a bundle, since all its images have the same cause. */
  private readonly reportedElsewhere = new Set<BundleId>();

  constructor(private readonly context: EffectContext) {}

  /**
   * Pulls one image, and records the result. INVARIANT: the mark that stickpin pulls this image is
   * on the disk before the pull starts, so that stickpin may remove the image also after a crash.
   * @throws AppError `store/…` when the mark can't be written; whatever aborted `signal`
   */
  async run(task: PullTask, bundle: StoredBundle, assessment: Assessment, signal: AbortSignal): Promise<TaskEnd> {
    const { ports, stalls } = this.context;
    const { store, runtime, meter, source } = ports;
    const image = allIn(bundle.contents).find((candidate) => candidate.reference === task.reference);
    if (image === undefined) return 'ended';
    const medium = assessment.bundles.find((entry) => entry.bundle.bundleId === bundle.bundleId)?.media[0];
    const about = defined({ bundleId: bundle.bundleId, digest: image.digest, medium });
    const online = task.online === true;
    if (!online) await this.passGate(image.reference, assessment, about, signal);
    if (!assessment.life.foreign.has(image.digest)) {
      this.notePulledByUs(image.reference, true);
      await store.settled(signal);
    }
    const end = await pullImage(image, bundle, { runtime, meter, source, stalls, online }, signal);
    return this.recordEnd({ task, image, bundle, about }, end);
  }

  private recordEnd(pull: Pull, end: PullEnd): TaskEnd {
    switch (end.kind) {
      case 'interrupted':
        return 'ended';
      case 'pulled':
        return this.recordPulled(pull, end.isElsewhere);
      case 'failed':
        this.recordFailure(pull, end);
        return 'ended';
    }
  }

  /** The failure `engine/not-listed` gives an image its pauses until it is listed. */
  private recordPulled({ task, image, bundle, about }: Pull, isElsewhere: boolean): TaskEnd {
    const { failures, pinRequests, ports } = this.context;
    const { recorder, clock } = ports;
    const { reference } = image;
    const before = failures.last(task);
    if (pinRequests.unenforced.has(reference)) pinRequests.unenforced.set(reference, true);
    const message = `${reference} was pulled, but the runtime does not list it`;
    failures.note(task, { code: 'engine/not-listed', message }, 'backoff', clock.now());
    if (before?.reason.code === 'engine/not-listed') return 'ended';
    recorder.record(
      isElsewhere ? pulledElsewhereEvent(reference, this.elsewhereLevel(bundle), about) : pulledEvent(reference, about),
    );
    return 'pulled';
  }

  /** The image is right, but it was not read from the stick. */
  private elsewhereLevel({ bundleId }: StoredBundle): 'debug' | 'warn' {
    const { reportedElsewhere } = this;
    const level = reportedElsewhere.has(bundleId) ? 'debug' : 'warn';
    reportedElsewhere.add(bundleId);
    return level;
  }

  private recordFailure({ task, image, about }: Pull, fault: PullFault): void {
    const { failures, ports } = this.context;
    const { recorder, clock } = ports;
    const before = failures.last(task);
    this.notePulledByUs(image.reference, false);
    const failure = failures.note(task, fault.reason, fault.retry, clock.now(), fault.blob);
    if (!isWorthReporting(fault, failure, before)) return;
    const isTriedSoon = fault.retry === 'backoff' || fault.retry === 'settling';
    const triedAgain = isTriedSoon ? failure.attempts : undefined;
    recorder.record(pullFailedEvent({ ...fault, triedAgain }, { ...about, image: image.reference }));
  }

  /**
   * A pull that begins before the runtime uses its mirrors may get the image from another registry.
   */
  private async passGate(
    reference: string,
    { mirrors }: Assessment,
    about: AboutImage,
    signal: AbortSignal,
  ): Promise<void> {
    const { mirrorGate, ports } = this.context;
    const end = await mirrorGate.pass(repositoryOf(reference), mirrors, signal);
    if (end === 'timed-out') ports.recorder.record(mirrorsUnusedEvent(about));
  }

  /** Never throws: without this record an image is never removed, which costs only space. */
  private notePulledByUs(reference: string, isPulledByUs: boolean): void {
    const { store, log } = this.context.ports;
    try {
      store.setPulledByUs(reference, isPulledByUs);
    } catch (error) {
      log.warn({ err: error }, `That ${reference} is ours to remove could not be noted: ${reasonOf(error)}`);
    }
  }
}

/** Only the first of several equal failures. The status of the bundle shows that they continue. */
function isWorthReporting(
  { reason, retry }: PullFault,
  { attempts }: Pick<TaskFailure, 'attempts'>,
  before: TaskFailure | undefined,
): boolean {
  // {@link Refusals} groups those of a policy.
  if (reason.code === 'runtime/policy') return false;
  if (retry === 'settling') return isSettlingReported(attempts);
  return before?.reason.message !== reason.message;
}
