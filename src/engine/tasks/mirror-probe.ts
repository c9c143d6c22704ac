import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';

export interface MirrorProbeDependencies {
  readonly runtime: Pick<RuntimePort, 'pull'>;
  readonly meter: Pick<TransferMeter, 'manifestRequests' | 'manifestsSent'>;
}

export interface ProbeEnd {
  readonly isRequested: boolean;
  readonly isSent: boolean;
  readonly failure: unknown;
}

/**
 * Lets the runtime pull a digest, to find out whether it uses our registry for this repository. A
 * runtime requests the manifest even of an image that it has (docs/runtime-facts.md, fact 17). A
 * digest names the same image in every registry. Only the request counts, not the result of the
 * pull.
 * @throws only what aborted `signal`
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
  const isRequested = meter.manifestRequests(repository, digest) !== asked;
  if (!isRequested) signal.throwIfAborted();
  return { isRequested, isSent: meter.manifestsSent(repository, digest) !== sent, failure };
}

/** The runtime is unreachable or stops. */
export function isRuntimeAway({ failure }: ProbeEnd): boolean {
  return failure instanceof AppError && ['runtime/unreachable', 'runtime/stopping'].includes(failure.code);
}
