import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Database, Statement } from 'better-sqlite3';
import type { Fault } from '../../domain/model/reason.ts';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import { type AppError, systemCodeOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { shareRuns } from '../../platform/async/concurrency.ts';
import { probeDisk, visibleDiskFault } from '../../platform/files/disk-fault.ts';
import { databaseWriteError, diskFaultError, unsyncedError } from '../files/write-error.ts';
import { damagedError, isCorruption, removedError } from './database.ts';
import { BundleRows } from './tables/bundle-rows.ts';
import { EventRows } from './tables/event-rows.ts';
import { PastRows } from './tables/past-rows.ts';
import { TrustRows } from './tables/trust-rows.ts';

export interface RecordingOptions {
  readonly keptEvents?: number;
  /** How old an event may become, in milliseconds. Default: any age. */
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

/** How long a change waits for one of another program: the default of better-sqlite3. */
const BUSY_MS = 5_000;

/** The tables of one connection. Their writers open no transaction. */
export interface Tables {
  readonly bundles: BundleRows;
  readonly events: EventRows;
  readonly past: PastRows;
  readonly trust: TrustRows;
}

/** Writes and reads an open database, and knows what is wrong with it. */
export class Recording {
  readonly tables: Tables;
  readonly walSync: WalSync;
  /** A change that must not be lost is not in the mirror yet. */
  isMirrorDue = true;
  /** A change failed although the disk has room: only another connection may succeed. */
  isBroken = false;
  /** A sync failed: only another file may bring the changes to the disk. */
  unsynced: AppError | undefined;
  /** Every change throws this. */
  refusal: AppError | undefined;
  /** Changes may be in the log alone, also those of an earlier connection. */
  private isCheckpointDue = true;
  private readonly onDamage: (error: AppError) => void;
  private readonly disk: DiskWatch;
  private readonly count: Statement;

  constructor(
    readonly database: Database,
    options: RecordingOptions = {},
  ) {
    const { keptEvents = KEPT_EVENTS, keptMs, sync = () => syncLog(database), refusal, onDamage } = options;
    this.tables = {
      bundles: new BundleRows(database),
      events: new EventRows(database, { keptEvents, keptMs }),
      past: new PastRows(database),
      trust: new TrustRows(database),
    };
    this.walSync = new WalSync(sync);
    this.disk = new DiskWatch(dirname(database.name));
    this.onDamage = onDamage ?? (() => undefined);
    this.refusal = refusal;
    this.count = database.prepare('UPDATE origin SET counter = counter + 1');
  }

  /** @throws AppError `store/…` (`retry`), `store/damaged` (`wait`); then nothing has changed */
  write<T>(work: (tables: Tables) => T): T {
    if (this.refusal !== undefined) throw this.refusal;
    const result = this.transact(() => {
      this.count.run();
      return work(this.tables);
    });
    this.disk.succeeded();
    this.walSync.committed();
    return result;
  }

  /** SQLite drops the end of a damaged log without an error, so this checkpoints. */
  writeThrough<T>(work: (tables: Tables) => T): T {
    const result = this.write(work);
    this.isMirrorDue = true;
    // The change is committed even if this fails, and {@link settled} tries again.
    this.checkpoint();
    return result;
  }

  /** @throws AppError `store/damaged` (`wait`); other errors unchanged */
  read<T>(work: (tables: Tables) => T): T {
    try {
      return work(this.tables);
    } catch (error) {
      throw this.damageIn(error) ?? error;
    }
  }

  /** Does what {@link StateStore.settled} says. */
  async settled(signal: AbortSignal): Promise<void> {
    if (this.isCheckpointDue) this.checkpoint();
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

  /** Every later change throws the error, which is reported once. */
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

  /** The log must become empty: a damaged frame hides what was copied from the frames after it. */
  private checkpoint(): void {
    const { database } = this;
    this.isCheckpointDue = true;
    if (!database.open) return;
    try {
      // SQLite reports another program that reads, and does not wait for it.
      database.pragma('busy_timeout = 0');
      const [result] = database.pragma('wal_checkpoint(TRUNCATE)') as readonly { readonly busy: number }[];
      this.isCheckpointDue = result?.busy !== 0;
    } catch (error) {
      this.damageIn(error);
      this.noteFailedSync(error);
    } finally {
      database.pragma(`busy_timeout = ${BUSY_MS}`);
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
   * Returns the error of every later change if it is damage: a write to a damaged file may damage
   * more.
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
async function syncLog(database: Database): Promise<void> {
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
