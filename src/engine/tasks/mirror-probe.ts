import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';

/** The adapters of a probe. */
export interface MirrorProbeDependencies {
  readonly runtime: Pick<RuntimePort, 'pull'>;
  readonly meter: Pick<TransferMeter, 'manifestRequests' | 'manifestsSent'>;
}

/** The result of a probe. */
export interface ProbeEnd {
  /** Whether our registry was asked. */
  readonly isAsked: boolean;
  /** Whether it answered with the manifest. */
  readonly isSent: boolean;
  /** The error of the pull if it failed. */
  readonly failure: unknown;
}

/**
 * Lets the runtime pull a digest, to find out whether it asks our registry for this repository. A
 * runtime requests the manifest even of an image that it has (docs/runtime-facts.md, fact 17). A
 * digest is safe, because it names the same image in every registry. Only the request to our
 * registry counts, not the result of the pull.
 *
 * @throws whatever aborted `signal`.
 */
export async function probeMirror(
  repository: string,
  digest: Digest,
  { runtime, meter }: MirrorProbeDependencies,
  signal: AbortSignal,
): Promise<ProbeEnd> {
  const asked = meter.manifestRequests(repository, digest);
  const sent = meter.manifestsSent(repository, digest);
  let failure: unknown;
  try {
    await runtime.pull(`${repository}@${digest}`, signal);
  } catch (error) {
    failure = error;
  }
  const isAsked = meter.manifestRequests(repository, digest) !== asked;
  if (!isAsked) signal.throwIfAborted();
  return { isAsked, isSent: meter.manifestsSent(repository, digest) !== sent, failure };
}

/** Whether a probe failed because the runtime is unreachable or being stopped. */
export function isRuntimeAway({ failure }: ProbeEnd): boolean {
  return failure instanceof AppError && ['runtime/unreachable', 'runtime/stopping'].includes(failure.code);
}
