import { untilAborted } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import { type Allocate, oneBuffer } from '../platform/files/file-access.ts';

/** Schedules the reads of concurrent transfers from their media. */
export interface ReadTurns {
  /** After the existing ones. */
  begin(): ReadTurn;
}

export interface ReadTurn {
  /**
   * Reads each chunk when it is the turn of this transfer. `open` gets the allocator of buffers. A
   * chunk is valid until the next one is read.
   * @throws errors of the stream; whatever aborted `signal`
   */
  read(open: (allocate: Allocate) => AsyncIterable<Buffer>, signal: AbortSignal): AsyncIterable<Buffer>;
  end(): void;
}

const MIB = 1024 * 1024;
/** Of all transfers except the oldest, so that the oldest gets the medium back soon. */
const LATER_CHUNK_BYTES = 256 * 1024;
/** Of all transfers. With many, chunks are smaller, down to {@link LEAST_CHUNK_BYTES}. */
const ALL_BUFFERS_BYTES = 8 * 1024 * 1024;
const LEAST_CHUNK_BYTES = 64 * 1024;
/** A read that hangs must not stop transfers from another medium. */
const LONGEST_WAIT_MS = 1_000;

/** As from the page cache or a good SSD (400 MB/s). Then turns cost more than they save. */
const FAST_MS_PER_MIB = 2.5;
/** Before anything was read: slow. */
const FIRST_MS_PER_MIB = 20;
/** Low, since read-ahead makes some reads of any medium fast. */
const READ_WEIGHT = 0.05;

/** Shared, because a new error would record a stack. */
const OVER = new Error('the last transfer is over');

interface Transfer {
  /** Settles, without error, when the current read ends. */
  reading: Promise<void> | undefined;
}

/**
 * Gives turns by age. If two pulls shared a medium evenly, both would get their last byte at the
 * same time; then both unpack, and the medium is idle. So the oldest transfer gets most of it: a
 * later one waits for the current reads of older ones, then reads a small chunk. A transfer that
 * waits for the runtime blocks no other. While reads are fast, there are no turns.
 */
export function createReadTurns(clock: Pick<Clock, 'sleep' | 'monotonic'>): ReadTurns {
  /** Oldest first. */
  const transfers = new Set<Transfer>();
  const pace = createReadPace(clock);
  const isOldest = (self: Transfer) => transfers.values().next().value === self;
  const chunkBytes = (self: Transfer, wantedBytes: number) => {
    // A power of two, so that a transfer that ends does not make all others take new buffers.
    const share = Math.max(LEAST_CHUNK_BYTES, ALL_BUFFERS_BYTES / 2 ** Math.ceil(Math.log2(transfers.size)));
    return Math.min(wantedBytes, share, isOldest(self) || pace.isFast() ? wantedBytes : LATER_CHUNK_BYTES);
  };
  const timer = createSharedTimer(clock);
  /** Two ticks, because the first one may come at once. */
  const longest = () => timer.tick().then(timer.tick);
  const olderReads = (self: Transfer): Promise<void>[] => {
    if (pace.isFast()) return [];
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
          const chunks = open((sizeBytes) => buffer(chunkBytes(self, sizeBytes)))[Symbol.asyncIterator]();
          try {
            for (;;) {
              const older = olderReads(self);
              // No await without need, so that a transfer that begins now sees this read.
              if (older.length > 0) await untilAborted(Promise.race([Promise.all(older), longest()]), signal);
              const next = await trackRead(self, pace.measure(chunks.next()));
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

interface ReadPace {
  isFast(): boolean;
  /** Measures a read. One that fails or is the end does not count. */
  measure(read: Promise<IteratorResult<Buffer>>): Promise<IteratorResult<Buffer>>;
}

function createReadPace(clock: Pick<Clock, 'monotonic'>): ReadPace {
  let msPerMib = FIRST_MS_PER_MIB;
  return {
    isFast: () => msPerMib < FAST_MS_PER_MIB,
    measure: async (read) => {
      const startedAt = clock.monotonic();
      const next = await read;
      if (next.done !== true && next.value.length > 0) {
        const ms = (clock.monotonic() - startedAt) * (MIB / next.value.length);
        msPerMib += (ms - msPerMib) * READ_WEIGHT;
      }
      return next;
    },
  };
}

/** One timer for all waits. A timer for each chunk would cost more than the read. */
interface SharedTimer {
  /** Ticks come after half of the longest wait. Never resolves after `cancel`. */
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
