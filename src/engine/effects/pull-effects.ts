import { unfitText } from '../../bundle/format/runtime-rules.ts';
import { unfitOf } from '../../bundle/read/unfit-images.ts';
import type { Assessment } from '../../domain/assess/assess.ts';
import { allIn, bundleTitle, type Image } from '../../domain/model/bundle.ts';
import { type BundleId, type Digest, shortDigest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { parseReference, repositoryOf } from '../../domain/model/reference.ts';
import type { FailedBlob } from '../../domain/state/checks.ts';
import type { RunningTask, TaskFailure } from '../../domain/state/memory.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import type { BlobSource, BlobUnion } from '../../ports/blobs.ts';
import type { PullErrorCode, RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import { documentsOf } from '../keepers/document-keeper.ts';
import { type BadBlob, findBadBlob } from '../keepers/layer-keeper.ts';
import {
  type AboutImage,
  mirrorsUnusedEvent,
  pulledElsewhereEvent,
  pulledEvent,
  pullFailedEvent,
} from '../reporting/events.ts';
import type { StallWatch } from '../tasks/stall-watch.ts';
import { isSettlingReported, type RetryPolicy, type TaskEnd } from '../tasks/tasks.ts';
import type { EffectContext } from './effect-context.ts';

export type PullTask = Extract<RunningTask, { readonly kind: 'pull' }>;

interface Pull {
  readonly task: PullTask;
  readonly image: PulledImage;
  readonly bundle: StoredBundle;
  readonly about: AboutImage;
}

export class PullTasks {
  /** A bundle gets one warning, since all its images have the same cause. */
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

/**
 * Reports the first of several equal failures. The status of the bundle shows that they continue.
 */
function isWorthReporting(
  { reason, retry }: PullFault,
  { attempts }: TaskFailure,
  before: TaskFailure | undefined,
): boolean {
  // {@link Refusals} groups those of a policy.
  if (reason.code === 'runtime/policy') return false;
  if (retry === 'settling') return isSettlingReported(attempts);
  return before?.reason.message !== reason.message;
}

/** An image, or an artifact where the runtime takes them. */
export type PulledImage = Pick<Image, 'reference' | 'digest' | 'mediaType' | 'layers' | 'component'>;

export interface PullDependencies {
  readonly runtime: Pick<RuntimePort, 'pull'>;
  readonly meter: Pick<
    TransferMeter,
    'manifestRequests' | 'manifestsSent' | 'sentBytes' | 'unknownRequests' | 'damaged'
  >;
  readonly stalls: StallWatch;
  readonly source: Omit<BlobUnion, 'onChange'>;
  /** Pulled from its own registry, because no medium has its blobs. */
  readonly online?: boolean;
}

export interface PullFault {
  readonly reason: Fault;
  readonly retry: RetryPolicy;
  readonly blob?: FailedBlob;
}

export type PullEnd =
  | {
      readonly kind: 'pulled';
      /** Our registry did not send the manifest, so another source of the runtime did. */
      readonly isElsewhere: boolean;
    }
  /** The runtime stops, whatever the image. */
  | { readonly kind: 'interrupted' }
  | ({ readonly kind: 'failed' } & PullFault);

/** @throws only what aborted `signal` */
export async function pullImage(
  image: PulledImage,
  bundle: StoredBundle,
  deps: PullDependencies,
  signal: AbortSignal,
): Promise<PullEnd> {
  const { repository } = parseReference(image.reference);
  const requests = () => deps.meter.manifestRequests(repository, image.digest);
  const requested = requests();
  const sentManifests = () => deps.meter.manifestsSent(repository, image.digest);
  const sentBefore = sentManifests();
  const unknown = () => deps.meter.unknownRequests(repository);
  const unknownBefore = unknown().count;
  try {
    const watched = {
      what: `${image.reference} of ${bundleTitle(bundle.payload)}`,
      layers: layersOf(image, bundle),
      isRequested: () => requests() !== requested,
    };
    const pull = (inner: AbortSignal) => deps.runtime.pull(image.reference, inner);
    // Our registry does not see a transfer from another one, so it can't detect that it stalls.
    await (deps.online === true ? pull(signal) : deps.stalls.guard(watched, signal, pull));
    return { kind: 'pulled', isElsewhere: deps.online !== true && sentManifests() === sentBefore };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AppError && error.code === 'runtime/stopping') return { kind: 'interrupted' };
    const isUnused = requests() === requested;
    const notOffered = unknown().count === unknownBefore ? undefined : unknown().last;
    const fault = await explain(error, { image, bundle, isUnused, notOffered }, deps, signal);
    return { kind: 'failed', ...fault };
  }
}

interface Failed {
  readonly image: PulledImage;
  readonly bundle: StoredBundle;
  readonly isUnused: boolean;
  /** The last digest that was requested meanwhile and that our registry does not offer. */
  readonly notOffered: Digest | undefined;
}

async function explain(
  error: unknown,
  failed: Failed,
  deps: PullDependencies,
  signal: AbortSignal,
): Promise<PullFault> {
  const code = error instanceof AppError ? error.code : 'runtime/pull-failed';
  const what = `${failed.image.reference} of ${bundleTitle(failed.bundle.payload)}`;
  const fault = (message: string, retry: RetryPolicy, as: string = code): PullFault => ({
    reason: { code: as, message },
    retry,
  });
  switch (code as PullErrorCode | 'engine/stalled') {
    case 'runtime/unreachable':
      return fault(`the runtime went away while pulling ${what}: ${reasonOf(error)}`, 'observed');
    case 'runtime/no-space':
      return fault(
        `the runtime's disk is full while pulling ${what}; all pulls are stopped. Free space on it, stickpin continues automatically`,
        'backoff',
      );
    case 'runtime/read-only':
      return fault(
        `the runtime's storage is read-only while pulling ${what}; all pulls are stopped. Look for errors of its disk in dmesg and remount it writable, stickpin continues automatically`,
        'space',
      );
    case 'runtime/policy':
      return fault(`the runtime's policy.json refuses ${what}: ${reasonOf(error)}`, 'person');
    case 'runtime/unfit-image':
      return fault(await unfitMessage(failed, what, error, deps, signal), 'person');
    case 'engine/stalled':
      return fault(reasonOf(error), 'backoff');
    case 'runtime/cancelled':
      return fault(`the pull of ${what} was cancelled by the runtime`, 'backoff');
    case 'runtime/digest-mismatch':
    case 'runtime/not-found':
    case 'runtime/pull-failed':
      if (deps.online === true) return fault(onlineMessage(failed.image, what, error), 'backoff');
      return failed.isUnused
        ? fault(
            `the runtime did not ask stickpin's registry for ${what}; it does not use its mirror configuration (yet): ${reasonOf(error)}`,
            'settling',
            'engine/mirror-unused',
          )
        : ((await blobFault(failed, what, deps, signal)) ??
            notInBundle(failed.notOffered, what) ??
            fault(`${what} could not be pulled: ${reasonOf(error)}`, 'backoff', 'runtime/pull-failed'));
    default:
      return fault(`${what} could not be pulled: ${reasonOf(error)}`, 'backoff');
  }
}

/** Names the reason as far as the manifest shows it. */
async function unfitMessage(
  { image, bundle }: Failed,
  what: string,
  error: unknown,
  { source }: PullDependencies,
  signal: AbortSignal,
): Promise<string> {
  // If there are none, the runtime's own words say why.
  const unfit = await unfitOf(image, bundle.payload.arch, source, signal).catch(() => []);
  signal.throwIfAborted();
  const why = unfit.map((one) => ` ${unfitText(one)}.`).join('');
  return `the runtime can't use ${what}. Make the bundle again with an image in another form.${why} The runtime says: ${reasonOf(error)}`;
}

function onlineMessage({ reference }: PulledImage, what: string, error: unknown): string {
  const registry = repositoryOf(reference).split('/')[0];
  return `${what} could not be pulled from ${registry}, where it comes from since no medium has its blobs: ${reasonOf(error)}`;
}

/** Manifest and layers come first: if one of them is absent, the medium is gone. */
async function blobFault(
  { image, bundle }: Failed,
  what: string,
  deps: PullDependencies,
  signal: AbortSignal,
): Promise<PullFault | undefined> {
  const gone: PullFault = {
    reason: { code: 'media/gone', message: `the medium with ${what} was removed` },
    retry: 'observed',
  };
  try {
    const documents = await documentsOf(image.digest, deps.source, signal);
    const layers = layersOf(image, bundle);
    if (await firstAbsent([image.digest, ...layers], deps.source, signal)) return gone;
    const lacking = await firstAbsent(documents, deps.source, signal);
    if (lacking !== undefined) return lackingFault(lacking, what);
    const sent = deps.meter.sentBytes();
    const damaged = deps.meter.damaged();
    const suspects = [...documents, ...layers.filter((digest) => sent.has(digest))];
    const seen = suspects.filter((digest) => damaged.has(digest));
    // First those that the meter saw damaged: if one has no other copy, the rest need not be read.
    const bad = await findBadBlob([...new Set([...seen, ...suspects])], deps.source, signal);
    const [unsteady] = seen;
    return bad === undefined ? unsteady && unsteadyFault(unsteady, bundle, image) : badBlobFault(bad, bundle, image);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AppError && error.code === 'media/gone') return gone;
    return undefined; // the runtime's own error has the reason: the registry sent it when it could not read the source
  }
}

async function firstAbsent(
  digests: readonly Digest[],
  source: BlobSource,
  signal: AbortSignal,
): Promise<Digest | undefined> {
  for (const digest of digests) if ((await source.sizeOf(digest, signal)) === undefined) return digest;
  return undefined;
}

function lackingFault(digest: Digest, what: string): PullFault {
  const message = `the stick lacks blob ${digest}, the config of ${what}. Plug in the stick that carries it, or copy the bundle again.`;
  const blob: FailedBlob = { digest, why: 'absent', isLast: true };
  return { reason: { code: 'bundle/blob-missing', message }, retry: 'media', blob };
}

/** Layers in the base of a delta are on no medium; the runtime has them. */
function layersOf(image: PulledImage, { contents }: StoredBundle): readonly Digest[] {
  return image.layers
    .map((index) => contents.layers[index])
    .flatMap((layer) => (layer === undefined || layer.inBase ? [] : [layer.digest]));
}

/** All blobs of the image are available, and the runtime requested another one. */
function notInBundle(digest: Digest | undefined, what: string): PullFault | undefined {
  if (digest === undefined) return undefined;
  const message = `the runtime asked for ${digest} to pull ${what}, and that is not in the bundle; make the bundle again for this node's platform`;
  return { reason: { code: 'bundle/not-in-bundle', message }, retry: 'backoff' };
}

/** Two reads of the same blob differed: the copy may be good, but the medium is unreliable. */
function unsteadyFault(digest: Digest, bundle: StoredBundle, image: PulledImage): PullFault {
  const name = image.component ?? repositoryOf(image.reference);
  const message = `Blob ${digest} of ${name} was read with other bytes than it has, and with the right ones when it was read again: the medium or its port is unreliable. It is tried again; if that does not help, copy ${bundleTitle(bundle.payload)} to another stick.`;
  const blob: FailedBlob = { digest, why: 'damaged', isLast: false };
  return { reason: { code: 'media/blob-damaged', message }, retry: 'backoff', blob };
}

/**
 * With another copy the image is retried at once. Without one, somebody must plug in a good one.
 */
function badBlobFault(bad: BadBlob, bundle: StoredBundle, image: PulledImage): PullFault {
  const name = image.component ?? repositoryOf(image.reference);
  const title = bundleTitle(bundle.payload);
  const code = bad.kind === 'damaged' ? 'media/blob-damaged' : 'media/blob-unreadable';
  const how =
    bad.kind === 'damaged'
      ? `is damaged on ${bad.at} (its ${bad.sizeBytes} bytes have digest ${shortDigest(bad.actual)})`
      : `can't be read from ${bad.at}: ${bad.why}`;
  const { digest, at: medium, file } = bad;
  const isLast = bad.instead === undefined;
  const blob: FailedBlob = defined({ digest, why: bad.kind, medium, file, isLast });
  const fault = (next: string, retry: RetryPolicy): PullFault => ({
    blob,
    reason: { code, message: `Blob ${bad.digest} of ${name} ${how}. ${next}` },
    retry,
  });
  if (bad.instead === undefined) {
    const next = `Copy ${title} to the stick again, or plug in another one.`;
    return fault(next, bad.kind === 'damaged' ? 'media' : 'backoff');
  }
  const other = bad.instead === bad.at ? `another copy on ${bad.at}` : bad.instead;
  return fault(`It is taken from ${other} instead; copy ${title} to ${bad.at} again.`, 'observed');
}
