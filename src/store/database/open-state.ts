import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isDiskTrouble } from '../../domain/preload/space.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED, untilAborted } from '../../platform/async/abort.ts';
import { Backoff } from '../../platform/backoff.ts';
import { probeDisk } from '../../platform/files/disk-fault.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import type { Store } from '../../ports/state.ts';
import { unsyncedError } from '../files/write-error.ts';
import { openDatabase, removedError } from './database.ts';
import { openOrRenew, replaceDatabase, type StateLoss } from './lost-state.ts';
import { ageOf, Mirror, type MirrorContent, mirrorOf } from './mirror.ts';
import { fileOf, Recording } from './recording.ts';
import { type Opened, SqliteState, type StateConnection, valuesIn } from './state-store.ts';
import type { BundleReviver } from './tables/bundle-rows.ts';

export interface OpenState {
  readonly store: Store;
  readonly mirror: Mirror;
  readonly loss: StateLoss | undefined;
  /** The mirror of another database, which lies beside this one. */
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
  /** How old an event may become, in milliseconds. Default: any age. */
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
  const live = new LiveDatabase(options);
  const { mirror, loss, foreignMirror, refusal } = live;
  return { store: new SqliteState(live), mirror, loss, foreignMirror, refusal, close: () => live.close() };
}

/** Between two tries to open the database. */
const TRY_PAUSES = { firstMs: 1_000, longestMs: 60_000 };
const RENEW_PAUSES = { firstMs: 5_000, longestMs: 300_000 };

/** The database that is open now, and its mirror. */
class LiveDatabase implements StateConnection {
  readonly mirror: Mirror;
  readonly loss: StateLoss | undefined;
  readonly foreignMirror: MirrorContent | undefined;
  refusal: AppError | undefined;
  private opened: Opened;
  private isStandby = false;
  private readonly tries = new Backoff(TRY_PAUSES);
  private tryAt = Number.NEGATIVE_INFINITY;
  private renewing: Promise<void> | undefined;
  private renewAt = Number.NEGATIVE_INFINITY;
  private readonly renewals = new Backoff(RENEW_PAUSES);

  constructor(private readonly options: OpenStateOptions) {
    this.mirror = new Mirror(options.path, options.now);
    const { opened, loss } = this.openAtStart();
    this.opened = opened;
    this.loss = loss;
    this.foreignMirror = this.refusal === undefined ? this.findForeign() : undefined;
    if (this.foreignMirror !== undefined) this.mirror.hold();
    this.mirror.forget();
  }

  close(): void {
    this.opened.recording.database.close();
    if (this.isStandby) rmSync(this.options.standbyDirectory, { recursive: true, force: true });
  }

  current(): Opened {
    const isDue = this.isStandby || this.opened.recording.isBroken;
    // A round calls this many times, and an opening checks all that is recorded.
    if (isDue && performance.now() >= this.tryAt) {
      if (this.openAgain()) this.tries.succeeded();
      this.mirror.forget();
      this.tryAt = performance.now() + this.tries.failed();
    }
    return this.opened;
  }

  async settled(signal: AbortSignal): Promise<void> {
    try {
      await this.current().recording.settled(signal);
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

  async writeMirror(signal: AbortSignal): Promise<void> {
    await this.settled(signal);
    const changed = (present: ReadonlySet<string>) => {
      const { recording } = this.opened;
      if (!recording.isMirrorDue || recording.refusal !== undefined) return undefined;
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

  private findForeign(): MirrorContent | undefined {
    const { origin } = ageOf(this.opened.recording.database);
    const [newest] = this.mirror.generations();
    return newest?.content.origin === origin ? undefined : newest?.content;
  }

  private openAtStart(): ReturnType<LiveDatabase['openReal']> {
    try {
      return this.openRealOrStandby();
    } catch (error) {
      if (!(error instanceof AppError) || error.code !== 'store/version') throw error;
      this.refusal = error;
      return { opened: this.openAt(this.standbyPath(), error), loss: undefined };
    }
  }

  private openRealOrStandby() {
    try {
      return this.openReal();
    } catch (error) {
      if (!(error instanceof AppError) || !isDiskTrouble(error)) throw error;
      const message = `${error.message}. Until then nothing is recorded, and no new bundle is adopted`;
      this.options.log.error({ err: error }, message);
      return this.openStandby(error);
    }
  }

  private openReal() {
    const { path, revive, now } = this.options;
    return openOrRenew({ path, revive, now, mirror: this.mirror }, () => this.openAt(path));
  }

  /**
   * Opens a copy with its log or journal unchanged: SQLite merges them. A damaged database may be
   * renamed already. Then the mirror is read, and without one the state is empty until the real
   * database can be written.
   */
  private openStandby(refusal: AppError) {
    const { path, revive, now } = this.options;
    const copy = this.standbyPath();
    for (const suffix of ['-journal', '', '-wal'])
      if (existsSync(`${path}${suffix}`)) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`);
    const files = { path: copy, of: path, revive, now, mirror: this.mirror };
    const standby = openOrRenew(files, () => this.openAt(copy, refusal));
    this.isStandby = true;
    return standby;
  }

  /** Empties the folder of the copy. */
  private standbyPath(): string {
    const { standbyDirectory, path } = this.options;
    rmSync(standbyDirectory, { recursive: true, force: true });
    mkdirSync(standbyDirectory, { recursive: true, mode: 0o700 });
    return join(standbyDirectory, basename(path));
  }

  private openAt(path: string, refusal?: AppError): Opened {
    const { log, keptMs, revive } = this.options;
    const onDamage = (error: AppError) => log.error({ err: error, messageId: messageIds.stateLost }, error.message);
    const database = openDatabase(path);
    try {
      const recording = new Recording(database, { onDamage, keptMs, ...(refusal !== undefined && { refusal }) });
      return { recording, values: valuesIn(recording, revive) };
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /** False when that fails: every change throws the earlier reason. */
  private openAgain(): boolean {
    const { path, log } = this.options;
    const before = this.opened;
    if (this.isStandby && probeDisk(dirname(path)) !== undefined) {
      // A small test: the next one comes soon.
      this.tries.succeeded();
      return false;
    }
    let next: ReturnType<LiveDatabase['openReal']>;
    try {
      next = this.isStandby ? this.openReal() : { opened: this.openAt(path), loss: undefined };
    } catch {
      return false;
    }
    const { recording } = next.opened;
    if (!this.isStandby && !isSameState(recording, before.recording)) {
      recording.database.close();
      before.recording.isBroken = false;
      before.recording.refuse(removedError(path, undefined));
      return false;
    }
    recording.walSync.follow(before.recording.walSync);
    const { isStandby } = this;
    this.opened = next.opened;
    this.isStandby = false;
    before.recording.database.close();
    if (next.loss !== undefined) log.error({}, next.loss.message);
    log.info({}, `${path} can be written again: what happens is recorded from now on`);
    if (isStandby) rmSync(this.options.standbyDirectory, { recursive: true, force: true });
    return true;
  }

  /** A crash in between leaves a whole mirror. @throws the error of the failed sync */
  private async renew(): Promise<void> {
    const { log } = this.options;
    const { database, unsynced } = this.opened.recording;
    const path = fileOf(database);
    log.error(
      { err: unsynced },
      `A sync of ${path} failed: ${reasonOf(unsynced?.cause)}. It is copied into a new file`,
    );
    const changes = () => database.prepare('SELECT total_changes()').pluck().get();
    try {
      // Should this end before the new file has its name, the old one has counted fewer changes.
      for (let before: unknown; before !== changes(); ) {
        before = changes();
        await this.mirror.write((present) => mirrorOf(database, present), NEVER_ABORTED);
      }
    } catch {
      // Another connection, which follows this one, may have replaced it meanwhile.
      throw unsynced;
    }
    try {
      // Nothing else runs until the new one is open.
      replaceDatabase(path, database);
      this.opened = this.openAt(this.options.path);
    } catch (error) {
      if (database.open) throw unsynced;
      const refusal = unsyncedError(path, error);
      this.opened = this.openStandby(refusal).opened;
      throw refusal;
    }
    log.info({}, `All that is recorded is on the disk, in a new ${path}`);
  }
}

/** False when the file was replaced meanwhile. */
function isSameState(next: Recording, before: Recording): boolean {
  const [one, other] = [ageOf(next.database), ageOf(before.database)];
  return one.origin === other.origin && one.counter >= other.counter;
}
