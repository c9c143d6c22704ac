import { dirname } from 'node:path';
import type { Database, Statement } from 'better-sqlite3';
import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import { type AppError, systemCodeOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { probeDisk, visibleDiskFault } from '../../platform/files/disk-fault.ts';
import { databaseWriteError, diskFaultError, unsyncedError } from '../files/write-error.ts';
import { damagedError, isCorruption, removedError } from './database.ts';
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

/** A permanent fault adds one event for each image every few minutes. */
const KEPT_EVENTS = 20_000;

/** Writes and reads an open database, and knows what is wrong with it. */
export class Recording {
  readonly events: EventRows;
  readonly walSync: WalSync;
  /** A change that must not be lost is not in the mirror yet. */
  isMirrorDue = true;
  /** A change failed although the disk has room: only another connection may succeed. */
  isBroken = false;
  /** A sync failed: only another file may bring the changes to the disk. */
  unsynced: AppError | undefined;
  private refusal: AppError | undefined;
  private readonly onDamage: (error: AppError) => void;
  private readonly disk: DiskWatch;
  private readonly count: Statement;

  constructor(
    readonly database: Database,
    options: RecordingOptions = {},
  ) {
    const { keptEvents = KEPT_EVENTS, keptMs, sync = () => syncLog(database), refusal, onDamage } = options;
    this.events = new EventRows(database, { keptEvents, keptMs });
    this.walSync = new WalSync(sync);
    this.disk = new DiskWatch(dirname(database.name));
    this.onDamage = onDamage ?? (() => undefined);
    this.refusal = refusal;
    this.count = database.prepare('UPDATE origin SET counter = ifnull(counter, 0) + 1');
  }

  get isRefused(): boolean {
    return this.refusal !== undefined;
  }

  /** @throws AppError `store/…` (`retry`), `store/damaged` (`wait`); then nothing has changed */
  write<T>(work: () => T): T {
    if (this.refusal !== undefined) throw this.refusal;
    const result = this.transact(() => {
      this.count.run();
      return work();
    });
    this.disk.succeeded();
    this.walSync.committed();
    return result;
  }

  /** SQLite drops the end of a damaged log without an error, so this checkpoints. */
  writeThrough<T>(work: () => T): T {
    const result = this.write(work);
    this.isMirrorDue = true;
    // The change is committed even if this fails, and in the next checkpoint.
    this.checkpoint();
    return result;
  }

  /** @throws AppError `store/damaged` (`wait`); other errors unchanged */
  read<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw this.damageIn(error) ?? error;
    }
  }

  /** As {@link StateStore.settled}. */
  async settled(signal: AbortSignal): Promise<void> {
    const synced = this.walSync.settled().catch((error: unknown) => {
      if (systemCodeOf(error) === 'ENOENT') return this.logIsRemoved(error);
      this.unsynced ??= unsyncedError(this.database.name, error);
      throw this.unsynced;
    });
    // The sync goes on after an abort, for all others that wait for it.
    await untilAborted(synced, signal);
  }

  trouble(): Fault | undefined {
    const error = this.refusal ?? this.disk.trouble() ?? this.unsynced;
    return error && { code: error.code, message: error.message };
  }

  /** From now on every change throws the error, which is reported once. */
  refuse(error: AppError): AppError {
    if (this.refusal !== undefined) return this.refusal;
    this.refusal = error;
    this.onDamage(error);
    return error;
  }

  private transact<T>(work: () => T): T {
    const { database } = this;
    try {
      return database.transaction(work)();
    } catch (error) {
      const damage = this.damageIn(error);
      if (damage !== undefined) throw damage;
      this.noteFailedSync(error);
      const failure = databaseWriteError(database.name, error);
      this.isBroken = failure.code !== 'store/no-space' && !/^SQLITE_(BUSY|LOCKED)/.test(systemCodeOf(error) ?? '');
      throw this.disk.failed(failure);
    }
  }

  private checkpoint(): void {
    try {
      this.database.pragma('wal_checkpoint(TRUNCATE)');
    } catch (error) {
      this.damageIn(error);
      this.noteFailedSync(error);
    }
  }

  private noteFailedSync(thrown: unknown): void {
    if (/^SQLITE_IOERR_(DIR_)?FSYNC$/.test(systemCodeOf(thrown) ?? '')) this.walSync.failed(thrown);
  }

  /** Once; `trouble()` reports it from then on. The values in memory stay in use. */
  private logIsRemoved(cause: unknown): void {
    if (this.refusal === undefined) throw this.refuse(removedError(this.database.name, cause));
  }

  /**
   * For damage: the error of every later change, since a write to a damaged file may damage more.
   */
  private damageIn(thrown: unknown): AppError | undefined {
    return isCorruption(thrown) ? this.refuse(damagedError(this.database.name, thrown)) : undefined;
  }
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
