import { dirname } from 'node:path';
import type { Database } from 'better-sqlite3';
import type { AppError } from '../../platform/app-error.ts';
import type { Durability, EventRow } from '../../ports/state.ts';
import { createDiskWatch, type DiskWatch } from '../files/disk-watch.ts';
import { databaseWriteError } from '../files/write-error.ts';
import { damagedError, isCorruption } from './damage.ts';
import { createEventRows, type EventRows } from './tables/event-rows.ts';
import { createWalSync, syncLog, type WalSync } from './wal-sync.ts';

/** How a database is written to. */
export interface RecordingOptions {
  /** Lines of the history that stay; default 20,000. */
  readonly keptEvents?: number;
  /** Has the write-ahead log written to the disk. */
  readonly sync?: () => Promise<void>;
  /**
   * Thrown by every change, in place of making it: the database is a copy that stands in for the
   * real one.
   */
  readonly refusal?: AppError;
  /** Called once, when the database is found damaged while it is in use. */
  readonly onDamage?: (error: AppError) => void;
}

/** A database that is being written to. */
export interface Recording {
  readonly database: Database;
  readonly events: EventRows;
  readonly walSync: WalSync;
  readonly disk: DiskWatch;
  readonly onDamage: (error: AppError) => void;
  /** Thrown by every change, in place of making it. */
  refusal: AppError | undefined;
  /** Number of the newest event that was committed. */
  revision: number;
  /** As {@link revision}, within a transaction. */
  appended: number;
}

/**
 * Lines of the history that are kept: a fault that lasts adds one for each image every few minutes.
 */
const KEPT_EVENTS = 20_000;

/** Begins to write to a database. */
export function createRecording(database: Database, options: RecordingOptions): Recording {
  const { keptEvents = KEPT_EVENTS, sync = () => syncLog(database), refusal, onDamage = () => undefined } = options;
  const events = createEventRows(database, keptEvents);
  const revision = events.newest();
  return {
    database,
    events,
    walSync: createWalSync(sync),
    disk: createDiskWatch(dirname(database.name)),
    onDamage,
    refusal,
    revision,
    appended: revision,
  };
}

/** Adds a line of history, within a transaction of {@link write}. */
export function append(recording: Recording, event: EventRow): void {
  recording.appended = recording.events.append(event);
}

/**
 * Does `work` in one transaction, and returns what it returns.
 *
 * @throws AppError `store/write`, `store/no-space`, `store/read-only` (`retry`), `store/damaged`
 * (`wait`); nothing is changed then
 */
export function write<T>(recording: Recording, work: () => T): T {
  if (recording.refusal !== undefined) throw recording.refusal;
  const result = transact(recording, work);
  recording.revision = recording.appended;
  recording.walSync.committed();
  return result;
}

function transact<T>(recording: Recording, work: () => T): T {
  const { database, disk } = recording;
  try {
    return database.transaction(work)();
  } catch (error) {
    recording.appended = recording.revision;
    throw damageIn(recording, error) ?? disk.failed(databaseWriteError(database.name, error));
  }
}

/**
 * As {@link write}, for what must not be in the log alone: SQLite drops the end of a damaged log
 * and reports no error.
 */
export function writeThrough<T>(recording: Recording, work: () => T): T {
  const result = write(recording, work);
  try {
    recording.database.pragma('wal_checkpoint(TRUNCATE)');
  } catch (error) {
    // It is committed; the next checkpoint takes it along. A disk that takes no writes fails the
    // next change.
    damageIn(recording, error);
  }
  return result;
}

/**
 * Reads with `work`. @throws AppError `store/damaged` (`wait`) when the database is damaged, and
 * other errors as they are
 */
export function read<T>(recording: Recording, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw damageIn(recording, error) ?? error;
  }
}

/** As `Durability`. */
export function createDurability(recording: Recording): Durability {
  const { database, disk, walSync } = recording;
  return {
    settled: async () => {
      try {
        await walSync.settled();
      } catch (error) {
        throw disk.failed(databaseWriteError(database.name, error));
      }
    },
    trouble: () => {
      const { refusal } = recording;
      return refusal === undefined ? disk.trouble() : { code: refusal.code, message: refusal.message };
    },
  };
}

/**
 * The error that every change throws from now on if `thrown` tells that the database is damaged:
 * what is written to a damaged file could be lost, or damage more of it.
 */
function damageIn(recording: Recording, thrown: unknown): AppError | undefined {
  if (!isCorruption(thrown)) return undefined;
  if (recording.refusal !== undefined) return recording.refusal;
  recording.refusal = damagedError(recording.database.name, thrown);
  recording.onDamage(recording.refusal);
  return recording.refusal;
}
