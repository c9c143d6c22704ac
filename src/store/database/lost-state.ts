import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { diskFaultOf } from '../../platform/files/disk-fault.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { damagedName, diskFaultError } from '../files/write-error.ts';
import { cannotOpen, isDamage, openDatabase } from './database.ts';
import { ageOf, databaseFrom, type Generation, isMirrored, type Mirror, type MirrorContent } from './mirror.ts';
import { registerRowSum, tableWithWrongSum } from './row-sums.ts';
import { checkVersion, isEmpty, isOurs, versionError } from './schema.ts';
import { type BundleReviver, loadBundles } from './tables/bundle-rows.ts';

/** SQLite would apply a log or a journal that a crash left to the new database. */
const LOG_SUFFIXES = ['-journal', '-wal', '-shm'] as const;
const SUFFIXES = [...LOG_SUFFIXES, ''] as const;

/** Files that a daemon leaves beside its database. */
const TRACES = ['status.json', 'crio/99-stickpin.conf'] as const;

/** What was found lost when the state was opened. */
export interface StateLoss {
  /** It names the path, and says what to do. */
  readonly message: string;
  /**
   * `mirror`: nothing is lost but history and conditions. `earlier`: floors are lower bounds, and
   * releases may be missing. `nothing`: the database is new.
   */
  readonly remains: 'mirror' | 'earlier' | 'nothing';
}

export interface StateFiles {
  /** The file that is opened. */
  readonly path: string;
  /** The state database, when `path` is a copy of it: messages name it. Default: `path`. */
  readonly of?: string;
  readonly revive: BundleReviver;
  /** Milliseconds since the epoch, for the new name of a damaged database. */
  readonly now: number;
  readonly mirror: Mirror;
}

/**
 * Opens the state database with `open`. A damaged or missing one is renamed with its log to
 * `state.db.damaged-<time>`, and made again from the newest generation of the mirror that is whole,
 * or it is a new one. So is one that has seen fewer changes than the mirror, or other ones. A full
 * or read-only disk and missing permissions are not damage.
 * @throws errors of `open`; AppError `store/aside`, `store/read` (`fatal`), `store/version`
 *   (`wait`), `store/no-space`, `store/read-only` (`retry`)
 */
export function openOrRenew<T>(
  files: StateFiles,
  open: () => T,
): { readonly opened: T; readonly loss: StateLoss | undefined } {
  const { path, mirror } = files;
  const renewed = (damage: string) => {
    const loss = renew(files, damage);
    return { opened: open(), loss };
  };
  const strange = strangeFile(path);
  if (strange !== undefined) return renewed(strange);
  makePrivate(path);
  rollBack(path);
  try {
    const isThere = existsSync(path) && statSync(path).size > 0;
    const damage = isThere ? damageOf(files, mirror.generations()[0]) : lossOf(files);
    return damage === undefined ? { opened: open(), loss: undefined } : renewed(damage);
  } catch (error) {
    if (isDamage(error)) return renewed(reasonOf(error));
    throw error;
  }
}

/** Makes the database again. @throws as {@link setAside}; then there is no database */
function renew(files: StateFiles, damage: string): StateLoss {
  const { path, of = path, mirror, now } = files;
  const aside = setAside(path, now);
  const kept = aside === undefined || path !== of ? '' : `; it is kept as ${aside}`;
  const what = `The state database ${of} could not be used: ${damage}${kept}. stickpin goes on with`;
  const history = [BEHIND, DIFFERENT].includes(damage) ? aside : undefined;
  try {
    for (const generation of mirror.generations()) {
      const remains = generation.isNewest && generation.lacks === undefined ? 'mirror' : 'earlier';
      if (restore(files, generation, remains, history)) return { remains, message: `${what} ${lossText(generation)}` };
    }
    const hidden = mirror.hidden(path === of);
    replaceDatabase(path, undefined, (staged) => recordLoss(staged, 'nothing', hidden));
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw cannotKeep(path, `the mirror of ${of}`, error);
  }
  const message = `${what} a new one: all pins stay, no key that a bundle brought is trusted, and each release is known again as far as the node has its documents, or when its stick is plugged in`;
  return { remains: 'nothing', message };
}

function lossText({ path, writtenAt, isNewest, lacks }: Generation): string {
  const what = isNewest ? 'the history before it is lost' : 'what was recorded after that is lost';
  const parts = lacks === undefined ? '' : `, with parts of that file: ${lacks}`;
  return `${path} of ${new Date(writtenAt).toISOString()}: ${what}${parts}. All pins stay; look at 'stickpin list'`;
}

/** False when the generation has no whole state. `history`: a database that has the events. */
function restore(
  files: StateFiles,
  generation: Generation,
  remains: StateLoss['remains'],
  history: string | undefined,
): boolean {
  let content: Database.Database | undefined;
  try {
    content = databaseFrom(generation.content);
    const isPut = replaceDatabase(files.path, content, (staged) => {
      if (damageOf({ ...files, path: staged }) !== undefined) return false;
      if (history !== undefined) takeHistory(history, staged);
      return remains === 'mirror' || recordLoss(staged, remains);
    });
    if (!isPut) files.mirror.doubt(generation, 'its content is no state');
    return isPut;
  } catch (error) {
    if (content !== undefined) throw error;
    files.mirror.doubt(generation, reasonOf(error));
    return false;
  } finally {
    content?.close();
  }
}

/**
 * Puts a database with the content of `source`, or an empty file, in the place of the one at
 * `path`: into a new file, which is synced and renamed. Then `source` is closed.
 * @param finish changes the new file and returns true, or false to leave the old database as it is
 * @returns what `finish` returned
 * @throws SqliteError, system errors, errors of `finish`
 */
export function replaceDatabase(
  path: string,
  source: Database.Database | undefined,
  finish: (staged: string) => boolean = () => true,
): boolean {
  const staged = `${path}.new`;
  try {
    remove(staged, SUFFIXES);
    // SQLite writes to an empty file and keeps its mode.
    closeSync(openSync(staged, 'wx', 0o600));
    source?.prepare('VACUUM INTO ?').run(staged);
    if (!finish(staged)) return false;
    setWalMode(staged);
    // A reader of a database in WAL mode leaves these behind.
    remove(staged, LOG_SUFFIXES);
    syncNow(staged);
    // It may be the database at `path`, which merges its log when it is closed.
    source?.close();
    remove(path, LOG_SUFFIXES);
    renameSync(staged, path);
    syncNow(dirname(path));
    return true;
  } finally {
    remove(staged, SUFFIXES);
  }
}

/** SQLite changes the mode with a rollback journal, which no kill may leave at the final name. */
function setWalMode(path: string): void {
  const database = new Database(path);
  try {
    database.pragma('journal_mode = WAL');
  } finally {
    database.close();
  }
}

/**
 * Undoes what a kill left unfinished before the database was in WAL mode: only a connection that
 * may write can. Errors are left to {@link damageOf}.
 */
function rollBack(path: string): void {
  if (!existsSync(`${path}-journal`)) return;
  let database: Database.Database | undefined;
  try {
    database = new Database(path, { fileMustExist: true });
    isEmpty(database);
  } catch {
    // damageOf finds the reason
  } finally {
    database?.close();
  }
}

function remove(path: string, suffixes: readonly string[]): void {
  for (const suffix of suffixes) rmSync(`${path}${suffix}`, { recursive: true, force: true });
}

/** The database has it: what a loss implies holds until it is recorded, also after a kill. */
function recordLoss(path: string, remains: StateLoss['remains'], hidden?: string): true {
  const database = openDatabase(path);
  try {
    const put = database.prepare('INSERT OR REPLACE INTO document (name, content) VALUES (?, ?)');
    put.run('loss', remains);
    if (hidden !== undefined) put.run('hidden-revocations', hidden);
    database.exec('UPDATE origin SET counter = counter + 1');
    return true;
  } finally {
    database.close();
  }
}

/** Why it is a loss that the database is absent or empty. Undefined at a first start. */
function lossOf({ path, of = path, mirror }: StateFiles): string | undefined {
  const isLost =
    mirror.exists() || existsSync(`${path}-wal`) || TRACES.some((name) => existsSync(join(dirname(of), name)));
  if (!isLost) return undefined;
  // The disk of its target may not be mounted.
  const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink();
  if (isLink && !existsSync(path)) throw cannotOpen(path, new Error(MISSING_TARGET));
  return existsSync(path) ? 'it is empty' : 'it is gone';
}

/**
 * Undefined when the database is usable. Changes nothing.
 * @param newest what the mirror has, to be compared
 */
function damageOf({ path, of = path, mirror, revive }: StateFiles, newest?: Generation): string | undefined {
  let database: Database.Database | undefined;
  try {
    if (!hasUsableHeader(path)) return 'its header is damaged';
    database = new Database(path, { readonly: true, fileMustExist: true });
    const verdict = database.pragma('integrity_check(1)', { simple: true });
    if (verdict !== 'ok') return findingOf(String(verdict));
    if (isEmpty(database)) return mirror.exists() ? 'it is empty' : undefined;
    if (!isOurs(database) && newest !== undefined) return 'it is no state database of stickpin';
    checkVersion(database, of);
    registerRowSum(database);
    const [orphan] = database.pragma('foreign_key_check') as readonly { readonly table: string }[];
    if (orphan !== undefined) return `a row of its table ${orphan.table} lacks its content`;
    const table = tableWithWrongSum(database);
    if (table !== undefined) return `a row of its table ${table} is not as it was written (wrong checksum)`;
    checkBundles(database, revive, of);
    if (newest === undefined) return undefined;
    if (isBehind(database, newest.content)) return BEHIND;
    return isMirrored(database, newest) ? undefined : DIFFERENT;
  } catch (error) {
    if (isDamage(error)) return reasonOf(error);
    throw error instanceof AppError ? error : cannotOpen(path, error);
  } finally {
    database?.close();
  }
}

/** Nothing is set aside of what another version wrote. @throws AppError `store/version` (`wait`) */
function checkBundles(database: Database.Database, revive: BundleReviver, of: string): void {
  try {
    loadBundles(database, revive);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'store/row') throw error;
    throw versionError(of, `a record that is whole can't be read: ${reasonOf(error)}`, error);
  }
}

const MISSING_TARGET =
  'it is a link to a file that is missing; mount the disk of that file, or remove the link if what it has is lost';

const BEHIND = 'it is an earlier copy, or lost what was recorded last, and knows less than its mirror';
const DIFFERENT = 'it has counted as many changes as its mirror, and differs from it';

/** An earlier copy has the history that a mirror lacks. */
function takeHistory(from: string, path: string): void {
  const database = new Database(path);
  try {
    database.prepare('ATTACH ? AS earlier').run(from);
    database.exec('INSERT OR IGNORE INTO main.event SELECT * FROM earlier.event');
  } catch (error) {
    if (!(error instanceof Database.SqliteError)) throw error; // the history is no reason to stop
  } finally {
    database.close();
  }
}

/**
 * Whether the mirror is of the same database, and has seen more of it. A file with the log of
 * another time has pages of both: its history may be older than the mirror although its counter is
 * not.
 */
function isBehind(database: Database.Database, newest: MirrorContent): boolean {
  const { origin, counter, revision } = ageOf(database);
  if (newest.origin !== origin) return false;
  // One that was made from the mirror has no history yet.
  const isMixed = revision > 0 && newest.revision > revision;
  return isMixed || (newest.counter > counter && newest.revision >= revision);
}

/** The database itself may be a link. SQLite follows none to its log. */
function strangeFile(path: string): string | undefined {
  for (const suffix of SUFFIXES) {
    const of = suffix === '' ? statSync : lstatSync;
    if (of(`${path}${suffix}`, { throwIfNoEntry: false })?.isFile() === false) return `${path}${suffix} is not a file`;
  }
  return undefined;
}

/** A copy that a person put back may be readable by all users. */
function makePrivate(path: string): void {
  for (const suffix of SUFFIXES) {
    try {
      chmodSync(`${path}${suffix}`, 0o600);
    } catch {
      // absent, or on a disk that can't be written, as its opening reports
    }
  }
}

/** Drops the heading, and makes one line. */
function findingOf(verdict: string): string {
  return oneLine(verdict.replace(/^\*\*\* in database .* \*\*\*$/m, ''));
}

/** 1 or 2 (SQLite file format, "File format version numbers"). */
function hasUsableHeader(path: string): boolean {
  const header = Buffer.alloc(20);
  const file = openSync(path, 'r');
  try {
    readSync(file, header, 0, header.length, 0);
  } finally {
    closeSync(file);
  }
  return [header[18], header[19]].every((version) => version === 1 || version === 2);
}

/**
 * Renames it with its log. Undefined when there was no file. @throws AppError `store/aside`
 * (`fatal`)
 */
function setAside(path: string, now: number): string | undefined {
  const aside = damagedName(path, now);
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    const moved = SUFFIXES.filter((suffix) => lstatSync(`${path}${suffix}`, { throwIfNoEntry: false }) !== undefined);
    for (const suffix of moved) renameSync(`${path}${suffix}`, `${aside}${suffix}`);
    return moved.length === 0 ? undefined : aside;
  } catch (error) {
    throw cannotKeep(path, aside, error);
  }
}

function cannotKeep(path: string, aside: string, cause: unknown): AppError {
  const fault = diskFaultOf(cause);
  if (fault !== undefined) return diskFaultError(path, fault, cause);
  return new AppError({
    code: 'store/aside',
    message: `${path} is damaged and can't be kept as ${aside}: ${reasonOf(cause)}; see that ${dirname(path)} is writable. Pins stay as they are`,
    disposition: 'fatal',
    cause,
  });
}

function syncNow(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
