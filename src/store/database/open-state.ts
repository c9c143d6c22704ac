import { chmodSync, closeSync, copyFileSync, existsSync, mkdirSync, openSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED, untilAborted } from '../../platform/async/abort.ts';
import { Backoff } from '../../platform/backoff.ts';
import { probeDisk } from '../../platform/files/disk-fault.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { Store } from '../../ports/state.ts';
import { unsyncedError } from '../files/write-error.ts';
import { openDatabase, removedError } from './database.ts';
import { openOrRenew, type StateLoss, syncNow } from './lost-state.ts';
import { ageOf, Mirror, type MirrorContent, mirrorOf } from './mirror.ts';
import { Recording } from './recording.ts';
import { SqliteState } from './state-store.ts';
import type { BundleReviver } from './tables/bundle-rows.ts';
import { fileOf } from './wal.ts';

export interface OpenState {
  readonly store: Store;
  readonly mirror: Mirror;
  readonly loss: StateLoss | undefined;
  /** Of another database, beside this one. */
  readonly foreignMirror: MirrorContent | undefined;
  /** Another version wrote what is stored: it stays as it is, and nothing of it is known. */
  readonly refusal: AppError | undefined;
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
 * again. If a sync to the disk fails, the database is copied into a new file. If another version
 * wrote it, the state is empty, and every change throws why.
 * @throws other errors of `openDatabase` and {@link SqliteState}
 */
export function openState(options: OpenStateOptions): OpenState {
  const state = new LiveState(options);
  const { store, mirror, loss, foreignMirror, refusal } = state;
  return { store, mirror, loss, foreignMirror, refusal, close: () => state.close() };
}

interface Opened {
  readonly state: SqliteState;
  readonly recording: Recording;
  readonly loss: StateLoss | undefined;
  close(): void;
}

/** Between two tries to open the database. */
const TRY_PAUSES = { firstMs: 1_000, longestMs: 60_000 };
const RENEW_PAUSES = { firstMs: 5_000, longestMs: 300_000 };

class LiveState {
  readonly store: Store;
  readonly mirror: Mirror;
  readonly loss: StateLoss | undefined;
  readonly foreignMirror: MirrorContent | undefined;
  refusal: AppError | undefined;
  private opened: Opened;
  private isStandby = false;
  private triedAt = Number.NEGATIVE_INFINITY;
  private readonly tries = new Backoff(TRY_PAUSES);
  private tryPauseMs = TRY_PAUSES.firstMs;
  private renewing: Promise<void> | undefined;
  private renewAt = Number.NEGATIVE_INFINITY;
  private readonly renewals = new Backoff(RENEW_PAUSES);

  constructor(private readonly options: OpenStateOptions) {
    this.mirror = new Mirror(options.path, options.now);
    this.opened = this.openAtStart();
    this.loss = this.opened.loss;
    this.foreignMirror = this.refusal === undefined ? this.findForeign() : undefined;
    if (this.foreignMirror !== undefined) this.mirror.hold();
    this.mirror.forget();
    const own: Pick<Store, 'settled' | 'mirror'> = {
      settled: (signal) => this.settled(signal),
      mirror: (signal) => this.writeMirror(signal),
    };
    this.store = new Proxy(own as Store, {
      get: (_own, name: keyof Store) => {
        if (name === 'settled' || name === 'mirror') return own[name];
        if (name === 'revocationRecord' && this.refusal !== undefined) return () => this.refuse();
        return (...args: readonly unknown[]) => {
          const state = this.current();
          return Reflect.apply(state[name], state, args);
        };
      },
    });
  }

  close(): void {
    this.opened.close();
  }

  private findForeign(): MirrorContent | undefined {
    const { origin } = ageOf(this.opened.recording.database);
    const [newest] = this.mirror.generations();
    return newest?.content.origin === origin ? undefined : newest?.content;
  }

  private refuse(): never {
    throw this.refusal;
  }

  private openAtStart(): Opened {
    try {
      return openReal(this.options, this.mirror);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      if (error.code === 'store/version') {
        this.refusal = error;
        return openEmpty(this.options, error);
      }
      if (!isDiskTrouble(error)) throw error;
      const message = `${error.message}. Until then nothing is recorded, and no new bundle is adopted`;
      this.options.log.error({ err: error }, message);
      return this.openCopy(error);
    }
  }

  private openCopy(refusal: AppError): Opened {
    const opened = openStandby(this.options, this.mirror, refusal);
    this.isStandby = true;
    return opened;
  }

  private current(): SqliteState {
    const isDue = this.isStandby || this.opened.recording.isBroken;
    // A round calls this many times, and an opening checks all that is recorded.
    if (isDue && performance.now() - this.triedAt >= this.tryPauseMs) {
      const { opened } = this;
      this.openAgain();
      this.mirror.forget();
      this.triedAt = performance.now();
      if (this.opened !== opened) this.tries.succeeded();
      this.tryPauseMs = this.tries.failed();
    }
    return this.opened.state;
  }

  /** If that fails, every change throws the earlier reason. */
  private openAgain(): void {
    const { path, log } = this.options;
    const before = this.opened;
    if (this.isStandby && (probeDisk(dirname(path)) !== undefined || !mayWrite(path))) {
      // A small test: the next one comes soon.
      this.tries.succeeded();
      return;
    }
    let next: Opened;
    try {
      next = this.isStandby ? openReal(this.options, this.mirror) : openWith(this.options);
    } catch {
      return;
    }
    if (!this.isStandby && !isSameState(next, before)) {
      next.close();
      before.recording.isBroken = false;
      before.recording.refuse(removedError(path, undefined));
      return;
    }
    next.recording.walSync.follow(before.recording.walSync);
    this.opened = next;
    this.isStandby = false;
    before.close();
    if (next.loss !== undefined) log.error({}, next.loss.message);
    log.info({}, `${path} can be written again: what happens is recorded from now on`);
  }

  private async settled(signal: AbortSignal): Promise<void> {
    try {
      await this.current().settled(signal);
      this.renewals.succeeded();
    } catch (error) {
      if (this.opened.recording.unsynced === undefined) throw error;
      if (this.renewing === undefined && performance.now() < this.renewAt) throw error;
      this.renewing ??= this.renew().finally(() => {
        this.renewing = undefined;
        this.renewAt = performance.now() + this.renewals.failed();
      });
      await untilAborted(this.renewing, signal);
    }
  }

  private async writeMirror(signal: AbortSignal): Promise<void> {
    await this.settled(signal);
    const changed = (present: ReadonlySet<string>) => {
      const { recording } = this.opened;
      if (!recording.isMirrorDue || recording.isRefused) return undefined;
      recording.isMirrorDue = false;
      return this.mirror.isCurrent(ageOf(recording.database)) ? undefined : mirrorOf(recording.database, present);
    };
    try {
      await this.mirror.write(changed, signal);
    } catch (error) {
      this.opened.recording.isMirrorDue = true;
      throw error;
    }
  }

  /** A crash in between leaves a whole mirror. @throws the error of the failed sync */
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
    const staged = `${path}.new`;
    try {
      for (let before: unknown; before !== changes(); ) {
        before = changes();
        rmSync(staged, { recursive: true, force: true });
        database.prepare('VACUUM INTO ?').run(staged);
        chmodSync(staged, 0o600);
        syncNow(staged);
        await this.mirror.write((present) => mirrorOf(database, present), NEVER_ABORTED);
      }
    } catch {
      rmSync(staged, { force: true });
      throw unsynced;
    }
    // Nothing else runs until the new one is open.
    this.opened.close();
    try {
      // After a crash in between, the old database has seen fewer changes than the mirror.
      for (const suffix of ['-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
      renameSync(staged, path);
      syncNow(dirname(path));
      this.opened = openWith(this.options);
    } catch (error) {
      const refusal = unsyncedError(path, error);
      this.opened = this.openCopy(refusal);
      throw refusal;
    }
    log.info({}, `All that is recorded is on the disk, in a new ${path}`);
  }
}

function mayWrite(path: string): boolean {
  try {
    closeSync(openSync(path, 'r+'));
    return true;
  } catch (error) {
    return systemCodeOf(error) === 'ENOENT';
  }
}

/** The file may have been replaced meanwhile. */
function isSameState(next: Opened, before: Opened): boolean {
  const [one, other] = [ageOf(next.recording.database), ageOf(before.recording.database)];
  return one.origin === other.origin && one.counter >= other.counter;
}

function openReal(options: OpenStateOptions, mirror: Mirror): Opened {
  const { path, revive, now } = options;
  const { opened, loss } = openOrRenew(path, { revive, now, mirror }, () => openWith(options));
  return { ...opened, loss };
}

function openWith({ path, revive, log, keptMs }: OpenStateOptions, refusal?: AppError): Opened {
  const onDamage = (error: AppError) => log.error({ err: error, messageId: messageIds.stateLost }, error.message);
  const database = openDatabase(path);
  try {
    const recording = new Recording(database, { onDamage, keptMs, ...(refusal !== undefined && { refusal }) });
    const state = new SqliteState(recording, revive);
    return { state, recording, loss: undefined, close: () => void database.close() };
  } catch (error) {
    database.close();
    throw error;
  }
}

/** In the folder of copies. */
function openEmpty(options: OpenStateOptions, refusal: AppError): Opened {
  const path = join(emptyFolder(options.standbyDirectory), basename(options.path));
  return openWith({ ...options, path }, refusal);
}

function openStandby(options: OpenStateOptions, mirror: Mirror, refusal: AppError): Opened {
  const { path, standbyDirectory, revive, now } = options;
  const copy = copyTo(path, standbyDirectory);
  // A damaged database may be renamed already. Without a copy of it, the state is empty until the
  // real one can be written.
  const { opened, loss } = openOrRenew(copy, { revive, now, mirror, of: path }, () =>
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
  const copy = join(emptyFolder(directory), basename(path));
  for (const suffix of ['', '-wal']) {
    if (existsSync(`${path}${suffix}`)) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`);
  }
  return copy;
}

function emptyFolder(directory: string): string {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}
