import { untilAborted } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import { type Allocate, oneBuffer } from '../platform/files/chunk-buffer.ts';

/** The order in which the transfers that run at one time read from their media. */
export interface ReadTurns {
  /** A transfer starts to take its turns, behind those that do already. */
  begin(): ReadTurn;
}

/** The turns of one transfer. */
export interface ReadTurn {
  /**
   * Reads a stream whenever it is this transfer's turn. `open` is given the buffers to read into; a
   * chunk is good until the next is asked for.
   *
   * @throws what the stream throws, and the signal's reason after an abort.
   */
  read(open: (allocate: Allocate) => AsyncIterable<Buffer>, signal: AbortSignal): AsyncIterable<Buffer>;
  /** The transfer is over. */
  end(): void;
}

/** What all but the oldest transfer read at once, so that it has the medium again soon. */
const LATER_CHUNK_BYTES = 256 * 1024;
/**
 * Longest wait for one turn: a read that hangs must not stop transfers from another medium, and a
 * runtime may give up what does not move.
 */
const LONGEST_WAIT_MS = 1_000;

/** Said to nobody: no transfer is left. One for all, since an error carries its stack. */
const OVER = new Error('the last transfer is over');

interface Transfer {
  /** Settles, without error, when the read under way ends. */
  reading: Promise<void> | undefined;
}

/**
 * Turns by age. A medium that two pulls share evenly gives each its last byte at the same time;
 * then both unpack, and the medium stands idle. So the oldest transfer gets most of it: a later one
 * waits for the reads of older ones that are under way, and then takes a small chunk. Whoever waits
 * for the runtime stands in nobody's way, so that nothing is lost where the medium is the quicker
 * of the two.
 */
export function createReadTurns(clock: Pick<Clock, 'sleep'>): ReadTurns {
  /** Oldest first. */
  const transfers = new Set<Transfer>();
  const isOldest = (self: Transfer) => transfers.values().next().value === self;
  const alarm = createAlarm(clock);
  /** The second ring, so that a wait that begins just before the first is not over at once. */
  const longest = () => alarm.rings().then(alarm.rings);
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
              // Without a pause where there is nothing to wait for: one that begins in the same
              // moment is to see this read.
              if (older.length > 0) await untilAborted(Promise.race([Promise.all(older), longest()]), signal);
              const next = await noting(self, chunks.next());
              if (next.done === true) return;
              yield next.value;
            }
          } finally {
            await chunks.return?.();
          }
        },
        end: () => {
          transfers.delete(self);
          if (transfers.size === 0) alarm.cancel();
        },
      };
    },
  };
}

async function noting<T>(self: Transfer, read: Promise<T>): Promise<T> {
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

/**
 * One for all who wait: a timer for each chunk, cancelled when that was read, costs more than the
 * reading.
 */
interface Alarm {
  /**
   * Resolves half of the longest wait after somebody was the first to ask, and so at most that long
   * from now; never once it is cancelled.
   */
  rings(): Promise<void>;
  cancel(): void;
}

function createAlarm(clock: Pick<Clock, 'sleep'>): Alarm {
  let current: { readonly rung: Promise<void>; readonly stop: AbortController } | undefined;
  return {
    rings: () => {
      if (current !== undefined) return current.rung;
      const stop = new AbortController();
      const rung = new Promise<void>((resolve) => {
        const ring = () => {
          current = undefined;
          resolve();
        };
        clock.sleep(LONGEST_WAIT_MS / 2, stop.signal).then(ring, () => undefined);
      });
      current = { rung, stop };
      return rung;
    },
    cancel: () => {
      current?.stop.abort(OVER);
      current = undefined;
    },
  };
}
