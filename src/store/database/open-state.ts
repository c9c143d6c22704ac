import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import { isAsNew } from '../../domain/release/unclaimed-pins.ts';
import type { StateAge } from '../../domain/state/release-record.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { probeDisk } from '../../platform/files/disk-fault.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { unsyncedError } from '../files/write-error.ts';
import { openDatabase, removedError } from './database.ts';
import { openOrRenew } from './lost-state.ts';
import { createRecording, type Recording, refuse } from './recording.ts';
import { putStaged, stageCopy, writeCopy } from './state-copies.ts';
import { createStores, type Store } from './state-store.ts';
import type { BundleReviver } from './tables/bundle-rows.ts';
import { fileOf } from './wal.ts';

export interface OpenState {
  readonly store: Store;
  readonly loss?: string | undefined;
  close(): void;
}

export interface OpenStateOptions {
  readonly path: string;
  readonly revive: BundleReviver;
  /** Folder for a temporary copy, on another filesystem that can be written. */
  readonly standbyDirectory: string;
  readonly log: Log;
  /** In milliseconds. Default any age. */
  readonly keptMs?: number | undefined;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Opens the state. A damaged database is renamed and replaced, see {@link openOrRenew}. If the
 * database can't be written, as on a full disk, the state is read from a copy, and every change
 * throws why, until the database can be opened. If a change fails later, the database is opened
 * again. If a sync to the disk fails, the database is copied into a new file.
 * @throws other errors of `openDatabase` and `createStateStore`
 */
export function openState(options: OpenStateOptions): OpenState {
  const state = new LiveState(options);
  return { store: state.store, loss: state.loss, close: () => state.close() };
}

interface Opened {
  readonly store: Store;
  readonly recording: Recording;
  readonly loss: string | undefined;
  close(): void;
}

/** Shortest time between two tries to open the database. */
const TRY_EVERY_MS = 1_000;

/** Doubled each time. */
const RENEW_PAUSE_MS = 5_000;
const RENEW_PAUSE_MAX_MS = 300_000;

class LiveState {
  readonly store: Store;
  readonly loss: string | undefined;
  private readonly options: OpenStateOptions;
  private opened: Opened;
  private isStandby = false;
  private triedAt = Number.NEGATIVE_INFINITY;
  private renewing: Promise<void> | undefined;
  private renewAt = Number.NEGATIVE_INFINITY;
  private renewPauseMs = RENEW_PAUSE_MS;

  constructor(options: OpenStateOptions) {
    this.options = options;
    this.opened = this.openAtStart();
    this.loss = this.opened.loss;
    const call =
      (name: keyof Store) =>
      (...args: readonly unknown[]): unknown =>
        Reflect.apply(this.current()[name], undefined, args);
    const names = Object.keys(this.opened.store) as (keyof Store)[];
    const store = Object.fromEntries(names.map((name) => [name, call(name)])) as unknown as Store;
    this.store = { ...store, settled: (signal) => this.settled(signal) };
  }

  close(): void {
    this.opened.close();
  }

  private openAtStart(): Opened {
    try {
      return openReal(this.options);
    } catch (error) {
      if (!(error instanceof AppError) || !isDiskTrouble(error)) throw error;
      const message = `${error.message}. Until then nothing is recorded, and no new bundle is adopted`;
      this.options.log.error({ err: error }, message);
      return this.openCopy(error);
    }
  }

  private openCopy(refusal: AppError): Opened {
    const opened = openStandby(this.options, refusal);
    this.isStandby = true;
    return opened;
  }

  private current(): Store {
    const isDue = this.isStandby || this.opened.recording.isBroken;
    // A round calls this many times.
    if (isDue && performance.now() - this.triedAt >= TRY_EVERY_MS) {
      this.openAgain();
      this.triedAt = performance.now();
    }
    return this.opened.store;
  }

  /** If that fails, every change throws the earlier reason. */
  private openAgain(): void {
    const { path, log } = this.options;
    const before = this.opened;
    if (this.isStandby && probeDisk(dirname(path)) !== undefined) return;
    let next: Opened;
    try {
      next = this.isStandby ? openReal(this.options) : openWith(this.options);
    } catch {
      return;
    }
    if (!this.isStandby && !isAsNew(ageOf(next), ageOf(before))) {
      next.close();
      before.recording.isBroken = false;
      refuse(before.recording, removedError(path, undefined));
      return;
    }
    next.recording.walSync.follow(before.recording.walSync);
    this.opened = next;
    this.isStandby = false;
    before.close();
    if (next.loss !== undefined) log.error({}, next.loss);
    log.info({}, `${path} can be written again: what happens is recorded from now on`);
  }

  private async settled(signal: AbortSignal): Promise<void> {
    try {
      await this.current().settled(signal);
      this.renewPauseMs = RENEW_PAUSE_MS;
    } catch (error) {
      if (this.opened.recording.unsynced === undefined) throw error;
      if (this.renewing === undefined && performance.now() < this.renewAt) throw error;
      this.renewing ??= this.renew().finally(() => {
        this.renewing = undefined;
        this.renewAt = performance.now() + this.renewPauseMs;
        this.renewPauseMs = Math.min(RENEW_PAUSE_MAX_MS, 2 * this.renewPauseMs);
      });
      await untilAborted(this.renewing, signal);
    }
  }

  /** A crash in between leaves a whole copy. @throws the error of the failed sync */
  private async renew(): Promise<void> {
    const { log } = this.options;
    const { recording } = this.opened;
    const { database, unsynced } = recording;
    const path = fileOf(database);
    log.error(
      { err: unsynced },
      `A sync of ${path} failed: ${reasonOf(unsynced?.cause)}. It is copied into a new file`,
    );
    const changes = () => database.prepare('SELECT total_changes()').pluck().get();
    try {
      for (let before: unknown; before !== changes(); ) {
        before = changes();
        await writeCopy(database);
        stageCopy(database.name, path);
      }
    } catch {
      throw unsynced;
    }
    // Nothing else runs until the new one is open.
    this.opened.close();
    try {
      putStaged(path);
      this.opened = openWith(this.options);
    } catch (error) {
      const refusal = unsyncedError(path, error);
      this.opened = this.openCopy(refusal);
      throw refusal;
    }
    log.info({}, `All that is recorded is on the disk, in a new ${path}`);
  }
}

function ageOf({ store }: Opened): StateAge {
  return store.load().age ?? { origin: '', revision: 0 };
}

function openReal(options: OpenStateOptions): Opened {
  const { path, revive, now } = options;
  const { opened, loss } = openOrRenew(path, { revive, now }, () => openWith(options));
  return { ...opened, loss };
}

function openWith({ path, revive, log, keptMs }: OpenStateOptions, refusal?: AppError): Opened {
  const onDamage = (error: AppError) => log.error({ err: error, messageId: messageIds.stateLost }, error.message);
  const database = openDatabase(path);
  try {
    const recording = createRecording(database, { onDamage, keptMs, ...(refusal !== undefined && { refusal }) });
    const store = createStores(recording, revive);
    return { store, recording, loss: undefined, close: () => void database.close() };
  } catch (error) {
    database.close();
    throw error;
  }
}

function openStandby(options: OpenStateOptions, refusal: AppError): Opened {
  const { path, standbyDirectory, revive, now } = options;
  const copy = copyTo(path, standbyDirectory);
  // A damaged database may be renamed already. Without a copy of it, the state is empty until the
  // real one can be written.
  const { opened, loss } = openOrRenew(copy, { revive, now, of: path }, () =>
    openWith({ ...options, path: copy }, refusal),
  );
  const close = () => {
    opened.close();
    rmSync(standbyDirectory, { recursive: true, force: true });
  };
  return { ...opened, loss, close };
}

/** With its log unchanged. SQLite merges them when it opens the copy. */
function copyTo(path: string, directory: string): string {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const copy = join(directory, basename(path));
  for (const suffix of ['', '-wal']) {
    if (existsSync(`${path}${suffix}`)) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`);
  }
  return copy;
}
