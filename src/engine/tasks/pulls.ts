import type { Digest } from '../../domain/model/digest.ts';
import { afterPull, type PullQueue } from '../../domain/preload/pull-schedule.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import { AppError } from '../../platform/app-error.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';

export interface Next {
  readonly starts: readonly RunningTask[];
  readonly needsRound: boolean;
}

const LATER: Next = { starts: [], needsRound: false };
const ROUND: Next = { starts: [], needsRound: true };

/** Pulls that start without a round, which takes long for a release with a thousand images. */
export class RunningQueue {
  private pullQueue: PullQueue | undefined;
  /** Pulls that ended since a round began. Undefined between rounds, and after `stop()`. */
  private ended: string[] | undefined;

  /** Call when a round begins. No pull starts until it has decided. */
  begin(): void {
    this.pullQueue = undefined;
    this.ended = [];
  }

  /** Call when a round is requested: no pull starts now or after the current round. */
  stop(): void {
    this.pullQueue = undefined;
    this.ended = undefined;
  }

  /** Returns what starts after the pulls that ended meanwhile. */
  decided(next: PullQueue | undefined): Next {
    const missed = this.ended;
    this.ended = undefined;
    if (missed === undefined) return LATER;
    this.pullQueue = next;
    const starts = missed.flatMap((reference) => this.after(reference).starts);
    return { starts, needsRound: missed.length > 0 && starts.length === 0 };
  }

  after(reference: string): Next {
    if (this.ended !== undefined) {
      this.ended.push(reference);
      return LATER;
    }
    if (this.pullQueue === undefined) return ROUND;
    const next = afterPull(this.pullQueue, reference);
    this.pullQueue = next.pullQueue;
    return { starts: next.starts, needsRound: next.starts.length === 0 };
  }
}

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
