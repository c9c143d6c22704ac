import type { Digest } from '../domain/model/digest.ts';
import { AppError } from '../platform/app-error.ts';
import { withEither } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import type { Allocate } from '../platform/files/chunk-buffer.ts';
import type { ChangingBlobSource } from '../ports/blobs.ts';
import type { ReadTurn } from './read-turns.ts';

/** What a transfer needs. */
export interface TransferDependencies {
  readonly source: ChangingBlobSource;
  readonly clock: Clock;
  /** When it reads. */
  readonly turn: ReadTurn;
  /** How long a transfer waits for its medium to come back. */
  readonly graceMs: number;
  /** Told when a transfer starts and ends to wait. */
  readonly onWait: (change: 1 | -1) => void;
}

/** The part of a blob that is wanted. */
export interface TransferRange {
  readonly digest: Digest;
  readonly firstByte: number;
  readonly lastByte: number;
}

/**
 * Wait before a read error is taken for more than a hiccup: the kernel often reports it just before
 * the device goes away.
 */
const READ_RETRY_MS = 500;
/**
 * How long a medium that is in place may fail to read the very same byte. Nothing is won by waiting
 * longer, as for one that is away: who removes it is noticed by then, and the sooner the pull
 * fails, the sooner the blob is named.
 */
const READ_GRACE_MS = 5_000;
/** Time between two looks while nothing signals a change. */
const LOOK_MS = 5_000;

/**
 * Streams part of a blob. When the medium goes away in between, it waits up to the grace time for
 * any medium that has the blob and goes on from the very byte: nothing is read twice, and the
 * runtime notices a pause only. A medium that stays and can't be read is given 5 s.
 *
 * INVARIANTS: a chunk is good until the next is asked for; what is read after a break has a buffer
 * of its own, since a read that hangs in a device which is gone may end late and still fill the one
 * before.
 *
 * @throws AppError `media/gone` or `media/read` when the grace time ran out.
 */
export async function* transfer(
  range: TransferRange,
  deps: TransferDependencies,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  let position = range.firstByte;
  let patience = createPatience(deps);
  while (position <= range.lastByte) {
    try {
      const from = position;
      const read = (allocate: Allocate) => deps.source.read(range.digest, from, signal, allocate);
      for await (const chunk of deps.turn.read(read, signal)) {
        const wanted = chunk.subarray(0, range.lastByte - position + 1);
        position += wanted.length;
        patience = createPatience(deps);
        yield wanted;
        if (position > range.lastByte) return;
      }
      throw shortBlob(range.digest, position);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof AppError) || error.disposition === 'reject') throw error;
      if (!(await returns(range.digest, patience.endsAt(error), deps, signal))) throw error;
    }
  }
}

/**
 * Until when a transfer that comes no further tries again: counted from the first failure of its
 * kind.
 */
function createPatience({ clock, graceMs }: TransferDependencies): { endsAt(error: AppError): number } {
  let failedAt: number | undefined;
  let unreadableAt: number | undefined;
  return {
    endsAt: ({ code }) => {
      const now = clock.monotonic();
      failedAt ??= now;
      unreadableAt = code === 'media/read' ? (unreadableAt ?? now) : undefined;
      const endMs = failedAt + graceMs;
      return unreadableAt === undefined ? endMs : Math.min(endMs, unreadableAt + READ_GRACE_MS);
    },
  };
}

function shortBlob(digest: Digest, position: number): AppError {
  return new AppError({
    code: 'media/read',
    message: `${digest} ended after ${position} bytes, before its full size`,
    disposition: 'retry',
  });
}

/** Waits until the blob is offered again; false when the time is over. */
async function returns(
  digest: Digest,
  untilMs: number,
  deps: TransferDependencies,
  signal: AbortSignal,
): Promise<boolean> {
  deps.onWait(1);
  let bell = new AbortController();
  const unsubscribe = deps.source.onChange(() => bell.abort());
  try {
    // The first look comes after a pause: right after a failed read the source may still believe
    // that it has the blob.
    for (let pauseMs = READ_RETRY_MS; deps.clock.monotonic() < untilMs; pauseMs = LOOK_MS) {
      await pause(Math.min(pauseMs, untilMs - deps.clock.monotonic()), bell.signal, deps.clock, signal);
      bell = new AbortController(); // before the look, so that a change in the midst of it ends the next pause at once
      if ((await deps.source.sizeOf(digest, signal)) !== undefined) return true;
    }
    return false;
  } finally {
    unsubscribe();
    deps.onWait(-1);
  }
}

async function pause(ms: number, bell: AbortSignal, clock: Clock, signal: AbortSignal): Promise<void> {
  try {
    await withEither([signal, bell], (either) => clock.sleep(Math.max(0, ms), either));
  } catch (error) {
    signal.throwIfAborted();
    if (!bell.aborted) throw error;
  }
}
