import type { Digest } from '../domain/model/digest.ts';
import { AppError } from '../platform/app-error.ts';
import { Wake } from '../platform/async/wake.ts';
import type { Clock } from '../platform/clock.ts';
import type { Allocate } from '../platform/files/file-access.ts';
import { shortBlob } from '../platform/http.ts';
import type { ChangingBlobSource } from '../ports/blobs.ts';
import type { ReadTurn } from './read-turns.ts';

export interface TransferDependencies {
  readonly source: ChangingBlobSource;
  readonly clock: Clock;
  readonly turn: ReadTurn;
  /** How long a transfer waits for an unplugged medium, in milliseconds. */
  readonly graceMs: number;
  /** Starts (`1`) or ends (`-1`). */
  readonly onWait: (change: 1 | -1) => void;
}

export interface TransferRange {
  readonly digest: Digest;
  readonly firstByte: number;
  readonly lastByte: number;
}

/** The kernel often reports a read error just before the device disappears. */
const READ_RETRY_MS = 500;
/** How long a plugged medium may fail at one byte. A removal is noticed within this time. */
const READ_GRACE_MS = 5_000;
/** How often media are checked while no change is signalled. */
const CHECK_MS = 5_000;

/**
 * Streams part of a blob. When its medium is unplugged, the transfer waits up to the grace time for
 * any medium with the blob, then continues from the same byte, after a pause for the runtime. A
 * plugged medium that can't be read gets 5 s. INVARIANTS: a chunk is valid until the next one is
 * read. After an interruption a new buffer is used, because a read that hangs in a removed device
 * may end late and still write to the old one.
 * @throws AppError `media/gone` or `media/read` when the grace time is over
 */
export async function* transfer(
  range: TransferRange,
  deps: TransferDependencies,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  let position = range.firstByte;
  let retryLimit = new RetryLimit(deps);
  while (position <= range.lastByte) {
    try {
      const from = position;
      const read = (allocate: Allocate) => deps.source.read(range.digest, from, signal, allocate);
      for await (const chunk of deps.turn.read(read, signal)) {
        const wanted = chunk.subarray(0, range.lastByte - position + 1);
        position += wanted.length;
        retryLimit = new RetryLimit(deps);
        yield wanted;
        if (position > range.lastByte) return;
      }
      throw shortBlob(range.digest, position);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof AppError) || error.disposition === 'reject') throw error;
      if (!(await returns(range.digest, retryLimit.endsAt(error), deps, signal))) throw error;
    }
  }
}

/** Counted from the first failure of its kind without progress. */
class RetryLimit {
  private failedAt: number | undefined;
  private unreadableAt: number | undefined;

  constructor(private readonly deps: TransferDependencies) {}

  endsAt({ code }: AppError): number {
    const { clock, graceMs } = this.deps;
    const now = clock.monotonic();
    this.failedAt ??= now;
    this.unreadableAt = code === 'media/read' ? (this.unreadableAt ?? now) : undefined;
    const endMs = this.failedAt + graceMs;
    return this.unreadableAt === undefined ? endMs : Math.min(endMs, this.unreadableAt + READ_GRACE_MS);
  }
}

/** False when the time is over. */
async function returns(
  digest: Digest,
  untilMs: number,
  deps: TransferDependencies,
  signal: AbortSignal,
): Promise<boolean> {
  deps.onWait(1);
  const wake = new Wake(deps.clock);
  const unsubscribe = deps.source.onChange(() => wake.kick());
  try {
    // The first check comes after a pause: right after a failed read the source may still list the
    // blob.
    for (let pauseMs = READ_RETRY_MS; deps.clock.monotonic() < untilMs; pauseMs = CHECK_MS) {
      await wake.wait(Math.min(pauseMs, untilMs - deps.clock.monotonic()), signal);
      signal.throwIfAborted();
      if ((await deps.source.sizeOf(digest, signal)) !== undefined) return true;
    }
    return false;
  } finally {
    unsubscribe();
    deps.onWait(-1);
  }
}
