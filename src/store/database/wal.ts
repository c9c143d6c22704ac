import { readFileSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { Database } from 'better-sqlite3';
import { systemCodeOf } from '../../platform/app-error.ts';
import { shareRuns } from '../../platform/async/concurrency.ts';

/**
 * Syncs commits without blocking the event loop, for a database with `synchronous=NORMAL`. Its
 * commits are in the write-ahead log, in order and with checksums; the synced part survives a power
 * cut. `FULL` would sync in each commit, on the event loop, and the registry would wait for a busy
 * disk. `NORMAL` does so only at a checkpoint, once in several hundred commits.
 */
export class WalSync {
  private readonly start: () => Promise<void>;
  private failure: { readonly error: unknown } | undefined;
  private last: Promise<void>;
  private earlier: Promise<void> = Promise.resolve();

  constructor(sync: () => Promise<void>) {
    const shared = shareRuns(sync);
    this.start = () => shared().catch((error: unknown) => this.failed(error));
    this.last = this.start();
  }

  /** Call after a commit. Starts to sync it. */
  committed(): void {
    this.last = this.start();
  }

  /** Call when SQLite could not sync a file of the database. */
  failed(error: unknown): void {
    this.failure ??= { error };
  }

  /** Call with the sync of the replaced connection, whose failure counts. */
  follow(before: WalSync): void {
    this.earlier = before.settled().catch((error: unknown) => this.failed(error));
  }

  /**
   * Resolves when all commits are on the disk, also those of an earlier process. After a failed
   * sync it always throws: Linux marks the pages as written, so another sync succeeds whether they
   * are on the disk or not (fsync(2), "EIO").
   */
  async settled(): Promise<void> {
    await this.earlier;
    await this.last;
    if (this.failure !== undefined) throw this.failure.error;
  }
}

/** The target when the path of the database is a link. */
export function fileOf(database: Database): string {
  const [main] = database.pragma('database_list') as readonly { readonly file: string }[];
  return main?.file ?? database.name;
}

/**
 * Opening and closing the log is safe: SQLite holds no lock on it. On a locked file, closing any
 * handle would release all locks of the process.
 */
export async function syncLog(database: Database): Promise<void> {
  // Closing the database has merged the log into it.
  if (!database.open) return;
  const path = `${fileOf(database)}-wal`;
  let log: FileHandle | undefined;
  try {
    log = await open(path, 'r');
    await log.datasync();
  } catch (error) {
    if (database.open || systemCodeOf(error) !== 'ENOENT') throw error;
  } finally {
    await log?.close();
  }
}

/** SQLite file format, "The Write-Ahead Log": sizes in bytes. */
const HEADER = 32;
const FRAME_HEADER = 24;
const MAGIC = 0x377f0682;

/**
 * The damage of a write-ahead log, as a phrase. SQLite treats a frame with a wrong checksum as the
 * end of the log, without an error: all later commits are lost.
 * A frame belongs to this log when it has the salts of the header. Frames of an earlier log may
 * follow after the end; they are ignored, as are frames of a transaction that was not committed,
 * after a kill or on a full disk. SQLite writes frames in order, each with a checksum over all
 * before it. So a transaction was committed when its last frame fits the frame before it, or when
 * the frame after it fits. Nobody knows whether the very last frame is damaged or was never written
 * whole.
 */
export function walDamage(path: string): string | undefined {
  const log = readLog(path);
  if (log === undefined || log.length <= HEADER + FRAME_HEADER) return undefined;
  const magic = log.readUInt32BE(0);
  if ((magic & 0xfffffffe) >>> 0 !== MAGIC) return 'its header is damaged';
  const isBigEndian = (magic & 1) === 1;
  let sums = checksum(log.subarray(0, 24), [0, 0], isBigEndian);
  if (!isEqual(sums, log, 24)) return 'its header is damaged';
  const pageSize = log.readUInt32BE(8) === 1 ? 65_536 : log.readUInt32BE(8);
  const size = FRAME_HEADER + pageSize;
  let at = HEADER;
  for (; at + size <= log.length; at += size) {
    if (!saltsMatch(log, at).every(Boolean)) break;
    const next = sumsAfter(log, at, size, sums, isBigEndian);
    if (next === undefined || !isEqual(next, log, at + 16)) break;
    sums = next;
  }
  const broken = sumsAfter(log, at, size, sums, isBigEndian);
  const fits = (frame: number, before: Sums | undefined): boolean => {
    const after = before && sumsAfter(log, frame, size, before, isBigEndian);
    return after !== undefined && isEqual(after, log, frame + 16);
  };
  const isWhole = (frame: number) =>
    (frame > at && (fits(frame, storedSums(log, frame - size)) || (frame === at + size && fits(frame, broken)))) ||
    fits(frame + size, storedSums(log, frame));
  for (let later = at; later + FRAME_HEADER <= log.length; later += size) {
    if (endsTransaction(log, later) && hasSalts(log, later) && isWhole(later))
      return `it is damaged from byte ${at} on`;
  }
  return undefined;
}

function readLog(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined; // SQLite will report why it can't be read
  }
}

type Sums = readonly [number, number];

function checksum(bytes: Buffer, [first, second]: Sums, isBigEndian: boolean): Sums {
  let [one, two] = [first, second];
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    one = (one + (isBigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at)) + two) >>> 0;
    two = (two + (isBigEndian ? bytes.readUInt32BE(at + 4) : bytes.readUInt32LE(at + 4)) + one) >>> 0;
  }
  return [one, two];
}

/** The checksum of a frame that follows one with the checksum `before`. Undefined: it is cut. */
function sumsAfter(log: Buffer, at: number, size: number, before: Sums, isBigEndian: boolean): Sums | undefined {
  if (at + size > log.length) return undefined;
  const head = checksum(log.subarray(at, at + 8), before, isBigEndian);
  return checksum(log.subarray(at + FRAME_HEADER, at + size), head, isBigEndian);
}

function storedSums(log: Buffer, at: number): Sums {
  return [log.readUInt32BE(at + 16), log.readUInt32BE(at + 20)];
}

function isEqual([one, two]: Sums, log: Buffer, at: number): boolean {
  return log.readUInt32BE(at) === one && log.readUInt32BE(at + 4) === two;
}

function saltsMatch(log: Buffer, at: number): readonly boolean[] {
  return [0, 4].map((offset) => log.readUInt32BE(at + 8 + offset) === log.readUInt32BE(16 + offset));
}

/** A frame of this log. Where only one of two salts matches, the other one is damaged. */
function hasSalts(log: Buffer, at: number): boolean {
  return saltsMatch(log, at).some(Boolean);
}

/** Only the last frame of a transaction has the size of the database after it. */
function endsTransaction(log: Buffer, at: number): boolean {
  return log.readUInt32BE(at + 4) !== 0;
}
