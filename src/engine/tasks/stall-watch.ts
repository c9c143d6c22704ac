import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { withEither } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { BlobFlow, TransferMeter } from '../../ports/transfers.ts';

/** The adapters of a stall watch. */
export interface StallDependencies {
  readonly clock: Clock;
  readonly meter: Pick<TransferMeter, 'flow'>;
  /** How long a pull may make no progress, in milliseconds. */
  readonly stallMs: number;
}

/** The pull that is watched. */
export interface WatchedPull {
  readonly what: string;
  readonly layers: readonly Digest[];
  /** Whether the runtime has requested its manifest since the pull began. */
  readonly isRequested: () => boolean;
  /** The runtime has the image, so that it transfers and unpacks no layer. Default false. */
  readonly isPresent?: boolean;
}

/** Watches running pulls for stalls. */
export interface StallWatch {
  /**
   * Runs `work` and aborts its signal when it stalls.
   *
   * @throws AppError `engine/stalled` (`retry`) when it stalls; otherwise the error of `work`
   */
  guard(pull: WatchedPull, signal: AbortSignal, work: (signal: AbortSignal) => Promise<void>): Promise<void>;
}

interface Watched {
  readonly pull: WatchedPull;
  flow: BlobFlow;
  isRequested: boolean;
}

const TICK_MS = 1_000;

/**
 * Detects stalled pulls. The duration of a pull has no limit. Only the time without a byte is
 * counted, while
 *
 * - the registry has an open transfer for it and its medium, which is plugged in, delivers nothing;
 *   or
 * - the runtime reads nothing from an open transfer, or has requested nothing yet, or has had the
 *   image before, and no other pull is being stored. A runtime that unpacks one image to a slow
 *   disk may let the others wait.
 *
 * The time in which a transfer waits for an unplugged medium is not counted. Neither is the time
 * after the runtime got all that it requested of an image that it did not have, because it unpacks
 * then. Every byte and every new request reset the count.
 */
export function createStallWatch({ clock, meter, stallMs }: StallDependencies): StallWatch {
  const all = new Set<Watched>();

  /** Why the passing time counts. Undefined when it does not. */
  function causeFor(watched: Watched): string | undefined {
    const { open, awaitingMedium, awaitingRuntime } = watched.flow;
    if (open > awaitingMedium + awaitingRuntime) return 'the medium gives nothing';
    const othersAreStored = [...all].some((other) => other !== watched && isStored(other));
    if (othersAreStored) return undefined;
    if (awaitingRuntime > 0) return 'the runtime takes nothing';
    if (watched.pull.isPresent === true) return 'the runtime has given no answer';
    return open === 0 && !watched.isRequested ? 'the runtime asks for nothing' : undefined;
  }

  async function watch(watched: Watched, end: AbortSignal): Promise<string> {
    let countedMs = 0;
    for (let last = clock.monotonic(); ; ) {
      await clock.sleep(Math.min(TICK_MS, stallMs), end);
      const passedMs = clock.monotonic() - last;
      last += passedMs;
      const before = { ...watched };
      watched.flow = meter.flow(watched.pull.layers);
      watched.isRequested = watched.pull.isRequested();
      const isMoved = watched.flow.sentBytes !== before.flow.sentBytes || watched.flow.opened !== before.flow.opened;
      const cause = causeFor(watched);
      if (isMoved || watched.isRequested !== before.isRequested) countedMs = 0;
      else if (cause !== undefined) countedMs += passedMs;
      if (cause !== undefined && countedMs >= stallMs) return cause;
    }
  }

  return {
    guard: async (pull, signal, work) => {
      const watched: Watched = { pull, flow: meter.flow(pull.layers), isRequested: false };
      const over = new AbortController();
      const stalled = new AbortController();
      all.add(watched);
      const watching = watch(watched, over.signal).then(
        (cause) => stalled.abort(stallError(pull, cause, stallMs)),
        () => undefined, // the pull has ended
      );
      try {
        await withEither([signal, stalled.signal], work);
      } catch (error) {
        signal.throwIfAborted();
        stalled.signal.throwIfAborted();
        throw error;
      } finally {
        all.delete(watched);
        over.abort();
        await watching;
      }
    },
  };
}

/** Whether the runtime got all that it requested and now unpacks. */
function isStored({ pull, flow, isRequested }: Watched): boolean {
  return pull.isPresent !== true && isRequested && flow.open === 0;
}

function stallError({ what, isPresent = false }: WatchedPull, cause: string, stallMs: number): AppError {
  const span = `${Math.round(stallMs / 1_000)} s`;
  const message = isPresent
    ? `${cause} to the pull of ${what} for ${span}. It was interrupted and is tried again; restart the runtime if that does not help`
    : `the pull of ${what} has stalled: not a byte in ${span}, since ${cause}. It was interrupted`;
  return new AppError({ code: 'engine/stalled', message, disposition: 'retry' });
}
