import { bundleTitle, type Image } from '../domain/bundle.ts';
import type { Reason } from '../domain/medium.ts';
import { parseReference } from '../domain/reference.ts';
import type { StoredBundle } from '../domain/state.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import type { RetryPolicy } from './failures.ts';
import { findDamagedBlob } from './find-damage.ts';
import type { BlobSource, PullErrorCode, RuntimePort, TransferMeter } from './ports.ts';

/** What a pull needs. */
export interface PullDependencies {
  readonly runtime: RuntimePort;
  readonly meter: TransferMeter;
  /** Where the registry finds blobs. */
  readonly source: BlobSource;
}

/** Why a pull failed, and how soon it may be tried again. */
export interface PullFault {
  readonly reason: Reason;
  readonly retry: RetryPolicy;
}

/**
 * Has the runtime pull one image by digest from our registry. Returns undefined when it did, else why not.
 *
 * @throws whatever aborted `signal`.
 */
export async function pullImage(
  image: Image,
  bundle: StoredBundle,
  deps: PullDependencies,
  signal: AbortSignal,
): Promise<PullFault | undefined> {
  const { repository } = parseReference(image.reference);
  const asked = deps.meter.manifestRequests(repository);
  try {
    await deps.runtime.pull(image.reference, signal);
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    const isUnused = deps.meter.manifestRequests(repository) === asked;
    return explain(error, { image, bundle, isUnused }, deps, signal);
  }
}

interface Failed {
  readonly image: Image;
  readonly bundle: StoredBundle;
  /** The runtime never came to our mirror. */
  readonly isUnused: boolean;
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
  switch (code as PullErrorCode) {
    case 'runtime/unreachable':
      return fault(`the runtime went away while pulling ${what}: ${reasonOf(error)}`, 'observed');
    case 'runtime/no-space':
      return fault(
        `the runtime's disk is full while pulling ${what}; free space on it, stickpin goes on by itself`,
        'backoff',
      );
    case 'runtime/policy':
      return fault(`the runtime's policy.json refuses ${what}: ${reasonOf(error)}`, 'backoff');
    case 'runtime/cancelled':
      return fault(`the pull of ${what} was cancelled by the runtime`, 'backoff');
    case 'runtime/digest-mismatch':
    case 'runtime/not-found':
    case 'runtime/pull-failed':
      return (await damageFault(failed, deps, signal)) ?? (await sourceFault(error, failed, what, deps, signal));
    default:
      return fault(`${what} could not be pulled: ${reasonOf(error)}`, 'backoff');
  }
}

/** Names the blob that is damaged, if that is the cause. */
async function damageFault(
  { image, bundle, isUnused }: Failed,
  deps: PullDependencies,
  signal: AbortSignal,
): Promise<PullFault | undefined> {
  if (isUnused) return undefined;
  const sent = deps.meter.sentBytes();
  const digests = image.layers
    .map((index) => bundle.contents.layers[index]?.digest)
    .filter((digest) => digest !== undefined)
    .filter((digest) => sent.has(digest));
  const damaged = await findDamagedBlob(digests, deps.source, signal);
  if (damaged === undefined) return undefined;
  const message = `blob ${damaged.digest} of ${image.reference} is damaged (its ${damaged.sizeBytes} bytes have digest ${damaged.actual}). Copy ${bundleTitle(bundle.payload)} to the stick again, or plug in another one.`;
  return { reason: { code: 'media/blob-damaged', message }, retry: 'media' };
}

/** The medium is gone, the runtime never came to us, or none of the known causes. */
async function sourceFault(
  error: unknown,
  { image, bundle, isUnused }: Failed,
  what: string,
  deps: PullDependencies,
  signal: AbortSignal,
): Promise<PullFault> {
  if (isUnused) {
    const message = `the runtime did not come to stickpin's registry for ${what}; it has not taken up its mirror configuration (yet): ${reasonOf(error)}`;
    return { reason: { code: 'engine/mirror-unused', message }, retry: 'settling' };
  }
  for (const index of image.layers) {
    const layer = bundle.contents.layers[index];
    if (layer === undefined || (await deps.source.sizeOf(layer.digest, signal)) !== undefined) continue;
    return { reason: { code: 'media/gone', message: `the medium with ${what} was removed` }, retry: 'observed' };
  }
  return {
    reason: { code: 'runtime/pull-failed', message: `${what} could not be pulled: ${reasonOf(error)}` },
    retry: 'backoff',
  };
}
