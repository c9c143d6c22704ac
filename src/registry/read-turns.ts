import { untilAborted } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import { type Allocate, oneBuffer } from '../platform/files/chunk-buffer.ts';

/** Schedules the reads of concurrent transfers from their media. */
export interface ReadTurns {
  /** Adds a transfer, after the existing ones. */
  begin(): ReadTurn;
}

/** The turns of one transfer. */
export interface ReadTurn {
  /**
   * Reads a stream, each chunk when it is the turn of this transfer. `open` gets the allocator of
   * buffers. A chunk is valid until the next one is read.
   *
   * @throws errors of the stream; whatever aborted `signal`
   */
  read(open: (allocate: Allocate) => AsyncIterable<Buffer>, signal: AbortSignal): AsyncIterable<Buffer>;
  /** Removes the transfer. */
  end(): void;
}

/**
 * The chunk size of all transfers except the oldest, so that the oldest gets the medium back soon.
 */
const LATER_CHUNK_BYTES = 256 * 1024;
/**
 * Longest wait for a turn. A read that hangs must not stop transfers from another medium, and a
 * runtime may abort a transfer without progress.
 */
const LONGEST_WAIT_MS = 1_000;

/**
 * Internal abort reason when no transfer is left. Shared, because a new error would record a stack.
 */
const OVER = new Error('the last transfer is over');

interface Transfer {
  /** Settles, without error, when the read under way ends. */
  reading: Promise<void> | undefined;
}

/**
 * Gives turns by age. If two pulls shared a medium evenly, both would get their last byte at the
 * same time; then both unpack, and the medium is idle. So the oldest transfer gets most of it: a
 * later one waits for the current reads of older ones, then reads a small chunk. A transfer that
 * waits for the runtime blocks no other. So no time is lost when the medium is faster than the
 * runtime.
 */
export function createReadTurns(clock: Pick<Clock, 'sleep'>): ReadTurns {
  /** Oldest first. */
  const transfers = new Set<Transfer>();
  const isOldest = (self: Transfer) => transfers.values().next().value === self;
  const timer = createSharedTimer(clock);
  /** Waits for two ticks, because the first one may come at once. */
  const longest = () => timer.tick().then(timer.tick);
  const olderReads = (self: Transfer): Promise<void>[] => {
    const all = [...transfers];
    return all.slice(0, Math.max(0, all.indexOf(self))).flatMap(({ reading }) => reading ?? []);
  };
  return {
    begin: () => {
      const self: Transfer = { reading: undefined };
      transfers.add(self);
      return {
        async *read(open, signal) {
          const buffer = oneBuffer();
          const chunks = open((sizeBytes) =>
            buffer(isOldest(self) ? sizeBytes : Math.min(sizeBytes, LATER_CHUNK_BYTES)),
          )[Symbol.asyncIterator]();
          try {
            for (;;) {
              const older = olderReads(self);
              // No await when there is nothing to wait for, so that a transfer that begins now sees
              // this read.
              if (older.length > 0) await untilAborted(Promise.race([Promise.all(older), longest()]), signal);
              const next = await trackRead(self, chunks.next());
              if (next.done === true) return;
              yield next.value;
            }
          } finally {
            await chunks.return?.();
          }
        },
        end: () => {
          transfers.delete(self);
          if (transfers.size === 0) timer.cancel();
        },
      };
    },
  };
}

async function trackRead<T>(self: Transfer, read: Promise<T>): Promise<T> {
  self.reading = read.then(
    () => undefined,
    () => undefined,
  );
  try {
    return await read;
  } finally {
    self.reading = undefined;
  }
}

/** One timer for all waits. A timer for each chunk would cost more than the read. */
interface SharedTimer {
  /**
   * Resolves at the next tick: half of the longest wait after the first call, so at most that long
   * from now. Never after `cancel`.
   */
  tick(): Promise<void>;
  cancel(): void;
}

function createSharedTimer(clock: Pick<Clock, 'sleep'>): SharedTimer {
  let current: { readonly ticked: Promise<void>; readonly stop: AbortController } | undefined;
  return {
    tick: () => {
      if (current !== undefined) return current.ticked;
      const stop = new AbortController();
      const ticked = new Promise<void>((resolve) => {
        const finish = () => {
          current = undefined;
          resolve();
        };
        clock.sleep(LONGEST_WAIT_MS / 2, stop.signal).then(finish, () => undefined);
      });
      current = { ticked, stop };
      return ticked;
    },
    cancel: () => {
      current?.stop.abort(OVER);
      current = undefined;
    },
  };
}
