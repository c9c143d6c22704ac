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

/** The state, as long as it is not closed. */
export interface OpenState {
  readonly store: Store;
  /**
   * What became of a database that could not be used, as a sentence; undefined when the one that
   * was there is in use.
   */
  readonly loss?: string | undefined;
  close(): void;
}

/** What {@link openState} needs. */
export interface OpenStateOptions {
  /** The database. */
  readonly path: string;
  readonly revive: BundleReviver;
  /** Where a copy may lie for a while: on another filesystem, which takes writes. */
  readonly standbyDirectory: string;
  readonly log: Log;
  /** Milliseconds since the epoch: for the name of a database that is put aside. */
  readonly now: number;
}

/**
 * Opens the state. A database that is damaged is renamed and begun anew, see {@link openOrRenew}.
 * Where its filesystem is full or read-only, what was recorded is read from a copy, and every
 * change throws `store/no-space` or `store/read-only`, until the database itself can be opened: the
 * daemon then goes on with that one, without a restart.
 *
 * @throws AppError as `openDatabase` and `createStateStore` for anything else
 */
export function openState(options: OpenStateOptions): OpenState {
  try {
    return openReal(options);
  } catch (error) {
    if (!(error instanceof AppError) || !isDiskTrouble(error)) throw error;
    options.log.error(
      { err: error },
      `${error.message}. Until then nothing is recorded, and no new bundle is taken up`,
    );
    return openStandby(options, error);
  }
}

function openReal({ path, revive, now, log }: OpenStateOptions): OpenState {
  const onDamage = (error: AppError) => log.error({ err: error, messageId: messageIds.stateLost }, error.message);
  const { opened, loss } = openOrRenew(path, { revive, now }, () => openWith(path, revive, { onDamage }));
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

/** How often it is tried to open the database itself, at most. */
const TRY_EVERY_MS = 1_000;

function openStandby(options: OpenStateOptions, refusal: AppError): OpenState {
  const { path, standbyDirectory, revive, log, now } = options;
  const copy = copyTo(path, standbyDirectory);
  // Of a damaged database nothing is known until the real one can be renamed.
  const { opened: copied, loss } = openOrRenew(copy, { revive, now }, () => openWith(copy, revive, { refusal }));
  const standby = copied.store;
  const dropCopy = () => {
    copied.close();
    rmSync(standbyDirectory, { recursive: true, force: true });
  };
  let real: OpenState | undefined;
  let triedAt = Number.NEGATIVE_INFINITY;
  const current = (): Store => {
    if (real !== undefined) return real.store;
    // A round calls many times.
    if (performance.now() - triedAt < TRY_EVERY_MS) return standby;
    triedAt = performance.now();
    if (probeDisk(dirname(path)) !== undefined) return standby;
    try {
      real = openReal(options);
    } catch {
      return standby; // what keeps it is told by the refusal
    }
    dropCopy();
    if (real.loss !== undefined) log.error({}, real.loss);
    log.info({}, `${path} can be written again: what happens is recorded from now on`);
    return real.store;
  };
  return { store: delegate(standby, current), loss, close: () => (real === undefined ? dropCopy() : real.close()) };
}

/**
 * The database with its write-ahead log, copied as it is: SQLite puts them together. Returns where
 * the copy is.
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

/** Calls the same method of what `current` gives at that time. */
function delegate(shape: Store, current: () => Store): Store {
  const call =
    (name: keyof Store) =>
    (...args: readonly unknown[]): unknown =>
      Reflect.apply(current()[name], undefined, args);
  return Object.fromEntries(Object.keys(shape).map((name) => [name, call(name as keyof Store)])) as unknown as Store;
}
