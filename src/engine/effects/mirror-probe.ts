import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';

/** What a probe needs. */
export interface MirrorProbeDependencies {
  readonly runtime: Pick<RuntimePort, 'pull'>;
  readonly meter: Pick<TransferMeter, 'manifestRequests'>;
}

/** How a probe ended: whether our registry was asked, and how the pull failed if it did. */
export interface ProbeEnd {
  readonly isAsked: boolean;
  readonly failure: unknown;
}

/**
 * Has the runtime pull something by digest, to see whether it comes to our registry for this
 * repository. It asks for the manifest even of what it has (docs/runtime-facts.md, fact 17), and a
 * digest names the right image wherever it comes from. That our registry was asked is all that
 * counts: what it does not have comes from elsewhere, or from nowhere.
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
  let failure: unknown;
  try {
    await runtime.pull(`${repository}@${digest}`, signal);
  } catch (error) {
    failure = error;
  }
  const isAsked = meter.manifestRequests(repository, digest) !== asked;
  if (!isAsked) signal.throwIfAborted();
  return { isAsked, failure };
}

/** Whether a probe failed because nothing answered it, or the runtime is being stopped. */
export function isRuntimeAway({ failure }: ProbeEnd): boolean {
  return failure instanceof AppError && ['runtime/unreachable', 'runtime/stopping'].includes(failure.code);
}
