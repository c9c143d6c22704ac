import { unfitText } from '../../bundle/format/runtime-rules.ts';
import { unfitOf } from '../../bundle/read/unfit-images.ts';
import { bundleTitle, type Image } from '../../domain/model/bundle.ts';
import { type Digest, shortDigest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { parseReference, repositoryOf } from '../../domain/model/reference.ts';
import type { FailedBlob } from '../../domain/state/checks.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import type { BlobSource, BlobUnion } from '../../ports/blobs.ts';
import type { PullErrorCode, RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import { documentsOf } from '../blobs/complete-documents.ts';
import { type BadBlob, findBadBlob } from '../blobs/find-damage.ts';
import type { StallWatch } from '../tasks/stall-watch.ts';
import type { RetryPolicy } from '../tasks/tasks.ts';

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
  const asked = requests();
  const sentManifests = () => deps.meter.manifestsSent(repository, image.digest);
  const sentBefore = sentManifests();
  const unknown = () => deps.meter.unknownRequests(repository);
  const unknownBefore = unknown().count;
  try {
    const watched = {
      what: `${image.reference} of ${bundleTitle(bundle.payload)}`,
      layers: layersOf(image, bundle),
      isRequested: () => requests() !== asked,
    };
    const pull = (inner: AbortSignal) => deps.runtime.pull(image.reference, inner);
    // Our registry does not see a transfer from another one, so it can't detect that it stalls.
    await (deps.online === true ? pull(signal) : deps.stalls.guard(watched, signal, pull));
    return { kind: 'pulled', isElsewhere: deps.online !== true && sentManifests() === sentBefore };
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof AppError && error.code === 'runtime/stopping') return { kind: 'interrupted' };
    const isUnused = requests() === asked;
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

/** With the reason as far as the manifest shows it. */
async function unfitMessage(
  { image, bundle }: Failed,
  what: string,
  error: unknown,
  { source }: PullDependencies,
  signal: AbortSignal,
): Promise<string> {
  // Without them the runtime's own words say why.
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
