import { untilAborted } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import { type Allocate, oneBuffer } from '../platform/files/file-access.ts';

const MIB = 1024 * 1024;
/** Later transfers read less at a time, so that the oldest gets the medium back soon. */
const LATER_CHUNK_BYTES = 256 * 1024;
/** All transfers share it. Many transfers have smaller chunks ({@link LEAST_CHUNK_BYTES}). */
const ALL_BUFFERS_BYTES = 8 * 1024 * 1024;
const LEAST_CHUNK_BYTES = 64 * 1024;
/** A read that hangs must not stop transfers from another medium. */
const LONGEST_WAIT_MS = 1_000;
/**
 * Nobody waits for a transfer with slower reads, after it has lost {@link LONGEST_WAIT_MS}: it has
 * a slow node, not a medium that others use.
 */
const SLOWEST_MS_PER_MIB = 1_000;

/** The page cache or a good SSD is this fast (400 MB/s). Then turns cost more than they save. */
const FAST_MS_PER_MIB = 2.5;
/** Before anything was read: slow. */
const FIRST_MS_PER_MIB = 20;
/** Low, since read-ahead makes some reads of any medium fast. */
const READ_WEIGHT = 0.05;

/** Shared, because a new error would record a stack. */
const OVER = new Error('the last transfer is over');

/**
 * Gives turns by age. If two pulls shared a medium evenly, both would get their last byte at the
 * same time; then both unpack, and the medium is idle. So the oldest transfer gets most of it: a
 * later one waits for the current reads of older ones, then reads a small chunk. A transfer that
 * waits for the runtime blocks no other. While reads are fast, there are no turns.
 */
export class ReadTurns {
  /** Oldest first. */
  private readonly turns = new Set<ReadTurn>();
  private msPerMib = FIRST_MS_PER_MIB;
  private timer: { readonly ticked: Promise<void>; readonly stop: AbortController } | undefined;

  constructor(private readonly clock: Pick<Clock, 'sleep' | 'monotonic'>) {}

  /** After the existing ones. */
  begin(): ReadTurn {
    const turn = new ReadTurn(this);
    this.turns.add(turn);
    return turn;
  }

  end(turn: ReadTurn): void {
    this.turns.delete(turn);
    if (this.turns.size > 0) return;
    this.timer?.stop.abort(OVER);
    this.timer = undefined;
  }

  chunkBytes(turn: ReadTurn, wantedBytes: number): number {
    const isOldest = this.turns.values().next().value === turn;
    // A power of two, so that a transfer that ends does not make all others take new buffers.
    const share = Math.max(LEAST_CHUNK_BYTES, ALL_BUFFERS_BYTES / 2 ** Math.ceil(Math.log2(this.turns.size)));
    return Math.min(wantedBytes, share, isOldest || this.isFast() ? wantedBytes : LATER_CHUNK_BYTES);
  }

  olderReads(turn: ReadTurn): Promise<void>[] {
    if (this.isFast()) return [];
    const all = [...this.turns];
    const nowMs = this.clock.monotonic();
    const older = all.slice(0, Math.max(0, all.indexOf(turn))).filter((one) => !one.isSlow(nowMs));
    return older.flatMap(({ reading }) => reading ?? []);
  }

  /** Two ticks, because the first one may come at once. */
  longestWait(): Promise<void> {
    return this.tick().then(() => this.tick());
  }

  /** Measures a read. One that fails, is the end or is of a slow node does not count. */
  async measure(turn: ReadTurn, read: Promise<IteratorResult<Buffer>>): Promise<IteratorResult<Buffer>> {
    const startedMs = this.clock.monotonic();
    const next = await turn.track(read, startedMs);
    if (next.done !== true && next.value.length > 0) {
      const ms = this.clock.monotonic() - startedMs;
      turn.count(ms, next.value.length);
      const msPerMib = ms * (MIB / next.value.length);
      if (msPerMib <= SLOWEST_MS_PER_MIB) this.msPerMib += (msPerMib - this.msPerMib) * READ_WEIGHT;
    }
    return next;
  }

  private isFast(): boolean {
    return this.msPerMib < FAST_MS_PER_MIB;
  }

  /**
   * After half of the longest wait; never after the last transfer. One timer for all waits: one for
   * each chunk would cost more than the read.
   */
  private tick(): Promise<void> {
    if (this.timer !== undefined) return this.timer.ticked;
    const stop = new AbortController();
    const ticked = new Promise<void>((resolve) => {
      const finish = () => {
        this.timer = undefined;
        resolve();
      };
      this.clock.sleep(LONGEST_WAIT_MS / 2, stop.signal).then(finish, () => undefined);
    });
    this.timer = { ticked, stop };
    return ticked;
  }
}

export class ReadTurn {
  /** Settles, without error, when the current read ends. */
  reading: Promise<void> | undefined;
  /** The start of the current read, monotonic. */
  private startedMs = 0;
  private readMs = 0;
  private readBytes = 0;

  constructor(private readonly turns: ReadTurns) {}

  /**
   * Reads each chunk when it is the turn of this transfer. `open` gets the allocator of buffers. A
   * chunk is valid until the next one is read.
   * @throws errors of the stream; whatever aborted `signal`
   */
  async *read(open: (allocate: Allocate) => AsyncIterable<Buffer>, signal: AbortSignal): AsyncIterable<Buffer> {
    const { turns } = this;
    const buffer = oneBuffer();
    const chunks = open((sizeBytes) => buffer(turns.chunkBytes(this, sizeBytes)))[Symbol.asyncIterator]();
    try {
      for (;;) {
        const older = turns.olderReads(this);
        // No await without need, so that a transfer that begins now sees this read.
        if (older.length > 0) await untilAborted(Promise.race([Promise.all(older), turns.longestWait()]), signal);
        const next = await turns.measure(this, chunks.next());
        if (next.done === true) return;
        yield next.value;
      }
    } finally {
      await chunks.return?.();
    }
  }

  end(): void {
    this.turns.end(this);
  }

  /** Whether its reads, or the current one, take too long for others to wait for them. */
  isSlow(nowMs: number): boolean {
    const pendingMs = this.reading === undefined ? 0 : nowMs - this.startedMs;
    const mostMs = LONGEST_WAIT_MS + (this.readBytes / MIB) * SLOWEST_MS_PER_MIB;
    return pendingMs > LONGEST_WAIT_MS || this.readMs + pendingMs > mostMs;
  }

  count(ms: number, bytes: number): void {
    this.readMs += ms;
    this.readBytes += bytes;
  }

  async track<T>(read: Promise<T>, startedMs: number): Promise<T> {
    this.startedMs = startedMs;
    this.reading = read.then(
      () => undefined,
      () => undefined,
    );
    try {
      return await read;
    } finally {
      this.reading = undefined;
    }
  }
}
