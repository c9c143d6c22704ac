import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isDiskTrouble } from '../../domain/preload/disk-trouble.ts';
import { AppError } from '../../platform/app-error.ts';
import { probeDisk } from '../../platform/files/disk-fault.ts';
import type { Log } from '../../platform/log.ts';
import { messageIds } from '../../platform/message-ids.ts';
import { openDatabase } from './database.ts';
import { openOrRenew } from './lost-state.ts';
import type { RecordingOptions } from './recording.ts';
import { createStateStore, type Store } from './state-store.ts';
import type { BundleReviver } from './tables/load-bundles.ts';

/** The open state. */
export interface OpenState {
  readonly store: Store;
  /**
   * A sentence about a database that could not be used. Undefined when the existing one is in use.
   */
  readonly loss?: string | undefined;
  close(): void;
}

/** The options of {@link openState}. */
export interface OpenStateOptions {
  /** Path of the database. */
  readonly path: string;
  readonly revive: BundleReviver;
  /** Folder for a temporary copy, on another filesystem that can be written. */
  readonly standbyDirectory: string;
  readonly log: Log;
  /** How old events of the history may become, in milliseconds. Default any age. */
  readonly keptMs?: number | undefined;
  /** Milliseconds since the epoch, for the new name of a damaged database. */
  readonly now: number;
}

/**
 * Opens the state. A damaged database is renamed and replaced, see {@link openOrRenew}. If its
 * filesystem is full or read-only, the state is read from a copy, and every change throws
 * `store/no-space` or `store/read-only`. As soon as the database itself can be opened, the daemon
 * uses it, without a restart.
 *
 * @throws other errors of `openDatabase` and `createStateStore`
 */
export function openState(options: OpenStateOptions): OpenState {
  try {
    return openReal(options);
  } catch (error) {
    if (!(error instanceof AppError) || !isDiskTrouble(error)) throw error;
    options.log.error({ err: error }, `${error.message}. Until then nothing is recorded, and no new bundle is adopted`);
    return openStandby(options, error);
  }
}

function openReal({ path, revive, now, log, keptMs }: OpenStateOptions): OpenState {
  const onDamage = (error: AppError) => log.error({ err: error, messageId: messageIds.stateLost }, error.message);
  const { opened, loss } = openOrRenew(path, { revive, now }, () => openWith(path, revive, { onDamage, keptMs }));
  return { ...opened, loss };
}

function openWith(path: string, revive: BundleReviver, options: RecordingOptions = {}): OpenState {
  const database = openDatabase(path);
  try {
    return { store: createStateStore(database, revive, options), close: () => void database.close() };
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Shortest time between two tries to open the database itself. */
const TRY_EVERY_MS = 1_000;

function openStandby(options: OpenStateOptions, refusal: AppError): OpenState {
  const { path, standbyDirectory, revive, log, now } = options;
  const copy = copyTo(path, standbyDirectory);
  // A damaged database may be renamed already, so that nothing is here. Without a copy of it, the
  // state is empty until the real one can be written.
  const { opened: copied, loss } = openOrRenew(copy, { revive, now, of: path }, () =>
    openWith(copy, revive, { refusal }),
  );
  const standby = copied.store;
  const dropCopy = () => {
    copied.close();
    rmSync(standbyDirectory, { recursive: true, force: true });
  };
  let real: OpenState | undefined;
  let triedAt = Number.NEGATIVE_INFINITY;
  const current = (): Store => {
    if (real !== undefined) return real.store;
    // A round calls this many times.
    if (performance.now() - triedAt < TRY_EVERY_MS) return standby;
    triedAt = performance.now();
    if (probeDisk(dirname(path)) !== undefined) return standby;
    try {
      real = openReal(options);
    } catch {
      return standby; // every change throws the refusal, which has the reason
    }
    dropCopy();
    if (real.loss !== undefined) log.error({}, real.loss);
    log.info({}, `${path} can be written again: what happens is recorded from now on`);
    return real.store;
  };
  return { store: delegate(standby, current), loss, close: () => (real === undefined ? dropCopy() : real.close()) };
}

/**
 * Copies the database and its write-ahead log unchanged. SQLite merges them when it opens the copy.
 * Returns the path of the copy.
 */
function copyTo(path: string, directory: string): string {
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const copy = join(directory, basename(path));
  for (const suffix of ['', '-wal']) {
    if (existsSync(`${path}${suffix}`)) copyFileSync(`${path}${suffix}`, `${copy}${suffix}`);
  }
  return copy;
}

/** A store that calls each method on the current result of `current`. */
function delegate(shape: Store, current: () => Store): Store {
  const call =
    (name: keyof Store) =>
    (...args: readonly unknown[]): unknown =>
      Reflect.apply(current()[name], undefined, args);
  return Object.fromEntries(Object.keys(shape).map((name) => [name, call(name as keyof Store)])) as unknown as Store;
}
