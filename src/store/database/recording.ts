import { dirname } from 'node:path';
import type { Database } from 'better-sqlite3';
import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import { type AppError, systemCodeOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { probeDisk, visibleDiskFault } from '../../platform/files/disk-fault.ts';
import type { EventRow, StateStore } from '../../ports/state.ts';
import { databaseWriteError, diskFaultError, unsyncedError } from '../files/write-error.ts';
import { damagedError, isCorruption, removedError } from './database.ts';
import { writeCopy } from './state-copies.ts';
import { EventRows } from './tables/event-rows.ts';
import { syncLog, WalSync } from './wal.ts';

export interface RecordingOptions {
  readonly keptEvents?: number;
  /** In milliseconds. Default any age. */
  readonly keptMs?: number | undefined;
  /** Writes the write-ahead log to the disk. Default {@link syncLog}. */
  readonly sync?: () => Promise<void>;
  /** Every change throws this: the database is a temporary copy. */
  readonly refusal?: AppError;
  /** Called once, when damage is found while the database is open. */
  readonly onDamage?: (error: AppError) => void;
}

export interface Recording {
  readonly database: Database;
  readonly events: EventRows;
  readonly walSync: WalSync;
  readonly disk: DiskWatch;
  readonly onDamage: (error: AppError) => void;
  refusal: AppError | undefined;
  /** Number of the newest committed event. */
  revision: number;
  /** Within a transaction. */
  appended: number;
  /** A change that must not be lost is in no copy yet. */
  isCopyDue: boolean;
  /** The log may have frames of a failed transaction, see {@link clearLog}. */
  isLogUnclean: boolean;
  /** A change failed although the disk has room: only another connection may succeed. */
  isBroken: boolean;
  /** A sync failed: only another file may bring the changes to the disk. */
  unsynced: AppError | undefined;
}

/** A permanent fault adds one event for each image every few minutes. */
const KEPT_EVENTS = 20_000;

export function createRecording(database: Database, options: RecordingOptions): Recording {
  const { keptEvents = KEPT_EVENTS, keptMs, sync = () => syncLog(database), refusal } = options;
  const { onDamage = () => undefined } = options;
  const events = new EventRows(database, { keptEvents, keptMs });
  const revision = events.newest();
  return {
    database,
    events,
    walSync: new WalSync(sync),
    disk: new DiskWatch(dirname(database.name)),
    onDamage,
    refusal,
    revision,
    appended: revision,
    // What was recorded right before the end of the daemon may be in no copy.
    isCopyDue: revision > 0,
    isLogUnclean: false,
    isBroken: false,
    unsynced: undefined,
  };
}

/** Within a transaction of {@link write}. */
export function append(recording: Recording, event: EventRow): void {
  recording.appended = recording.events.append(event);
}

/** @throws AppError `store/…` (`retry`), `store/damaged` (`wait`); then nothing has changed */
export function write<T>(recording: Recording, work: () => T): T {
  if (recording.refusal !== undefined) throw recording.refusal;
  const result = transact(recording, work);
  recording.revision = recording.appended;
  recording.disk.succeeded();
  recording.walSync.committed();
  return result;
}

function transact<T>(recording: Recording, work: () => T): T {
  const { database, disk } = recording;
  try {
    return database.transaction(work)();
  } catch (error) {
    recording.appended = recording.revision;
    const damage = damageIn(recording, error);
    if (damage !== undefined) throw damage;
    noteFailedSync(recording, error);
    recording.isLogUnclean = true;
    clearLog(recording);
    const failure = databaseWriteError(database.name, error);
    recording.isBroken = failure.code !== 'store/no-space' && !/^SQLITE_(BUSY|LOCKED)/.test(systemCodeOf(error) ?? '');
    throw disk.failed(failure);
  }
}

/** After a power cut the frames of a failed transaction look like damage. Retried later. */
function clearLog(recording: Recording): void {
  if (recording.isLogUnclean && checkpoint(recording)) recording.isLogUnclean = false;
}

/** SQLite drops the end of a damaged log without an error, so this checkpoints. */
export function writeThrough<T>(recording: Recording, work: () => T): T {
  const result = write(recording, work);
  recording.isCopyDue = true;
  // The change is committed even if this fails, and in the next checkpoint.
  checkpoint(recording);
  return result;
}

function checkpoint(recording: Recording): boolean {
  try {
    recording.database.pragma('wal_checkpoint(TRUNCATE)');
    return true;
  } catch (error) {
    damageIn(recording, error);
    noteFailedSync(recording, error);
    return false;
  }
}

function noteFailedSync(recording: Recording, thrown: unknown): void {
  if (/^SQLITE_IOERR_(DIR_)?FSYNC$/.test(systemCodeOf(thrown) ?? '')) recording.walSync.failed(thrown);
}

/** @throws AppError `store/damaged` (`wait`); other errors unchanged */
export function read<T>(recording: Recording, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw damageIn(recording, error) ?? error;
  }
}

export function createDurability(recording: Recording): Pick<StateStore, 'settled' | 'trouble'> {
  const { database, disk, walSync } = recording;
  return {
    settled: async (signal) => {
      clearLog(recording);
      const synced = walSync.settled().catch((error: unknown) => {
        if (systemCodeOf(error) === 'ENOENT') return logIsRemoved(recording, error);
        recording.unsynced ??= unsyncedError(database.name, error);
        throw recording.unsynced;
      });
      // The sync goes on after an abort, for all others that wait for it.
      await untilAborted(synced, signal);
    },
    trouble: () => {
      const error = recording.refusal ?? disk.trouble() ?? recording.unsynced;
      return error && { code: error.code, message: error.message };
    },
  };
}

/** Once; `trouble()` reports it from then on. The values in memory stay in use. */
function logIsRemoved(recording: Recording, cause: unknown): void {
  if (recording.refusal === undefined) throw refuse(recording, removedError(recording.database.name, cause));
}

export function createStateCopies(recording: Recording): Pick<StateStore, 'keepCopy'> {
  return {
    keepCopy: async (signal) => {
      signal.throwIfAborted();
      if (!recording.isCopyDue || recording.refusal !== undefined) return;
      recording.isCopyDue = false;
      try {
        await writeCopy(recording.database);
      } catch (error) {
        recording.isCopyDue = true;
        throw error;
      }
    },
  };
}

/** For damage: the error of every later change, since a write to a damaged file may damage more. */
function damageIn(recording: Recording, thrown: unknown): AppError | undefined {
  if (!isCorruption(thrown)) return undefined;
  return refuse(recording, damagedError(recording.database.name, thrown));
}

/** From now on every change throws the error, which is reported once. */
export function refuse(recording: Recording, error: AppError): AppError {
  if (recording.refusal !== undefined) return recording.refusal;
  recording.refusal = error;
  recording.onDamage(error);
  return error;
}

/** Finds out whether stickpin's own files can be written. */
class DiskWatch {
  private failure: AppError | undefined;

  constructor(private readonly directory: string) {}

  /** Returns `error`. */
  failed(error: AppError): AppError {
    this.failure = error;
    return error;
  }

  succeeded(): void {
    this.failure = undefined;
  }

  /** A full disk counts as such until a test write succeeds, other failures until a write does. */
  trouble(): Fault | undefined {
    const { failure, directory } = this;
    const fault = failure === undefined ? visibleDiskFault(directory) : probeDisk(directory);
    if (fault !== undefined) {
      const { code, message } = diskFaultError(directory, fault);
      return { code, message };
    }
    if (failure === undefined) return undefined;
    if (isDiskTrouble(failure)) this.failure = undefined;
    return this.failure && { code: this.failure.code, message: this.failure.message };
  }
}
