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
import { ageOf, databaseFrom, type Generation, type Mirror, writeDatabase } from './mirror.ts';
import { registerRowSum, tableWithWrongSum } from './row-sums.ts';
import { checkVersion, isEmpty, isOurs, versionError } from './schema.ts';
import { type BundleReviver, loadBundles } from './tables/bundle-rows.ts';

/** The log first: if it were left after a crash, SQLite would apply it to the new database. */
const SUFFIXES = ['-wal', '-shm', ''] as const;

/** Files that an earlier daemon leaves beside its database. */
const TRACES = ['status.json', 'crio/99-stickpin.conf'] as const;

/** What was found lost when the state was opened. */
export interface StateLoss {
  /** With the path, and what to do. */
  readonly message: string;
  /**
   * `mirror`: nothing is lost but history and conditions. `earlier`: floors are lower bounds, and
   * releases may be missing. `nothing`: the database is new.
   */
  readonly left: 'mirror' | 'earlier' | 'nothing';
}

export interface RenewOptions {
  readonly revive: BundleReviver;
  /** Milliseconds since the epoch, for the new name of a damaged database. */
  readonly now: number;
  readonly mirror: Mirror;
  /** The real database, when a copy of it is opened: `loss` names it. */
  readonly of?: string;
}

/**
 * Opens the state database with `open`. A damaged or missing one is renamed with its log to
 * `state.db.damaged-<time>`, and made again from the newest generation of the mirror that is whole,
 * or it is a new one. So is one that has seen fewer changes than the mirror. A full or read-only
 * disk and missing permissions are not damage.
 * @throws errors of `open`; AppError `store/aside`, `store/read` (`fatal`), `store/version`
 *   (`wait`), `store/no-space`, `store/read-only` (`retry`)
 */
export function openOrRenew<T>(
  path: string,
  options: RenewOptions,
  open: () => T,
): { readonly opened: T; readonly loss: StateLoss | undefined } {
  const { now, of = path } = options;
  const startAnew = (damage: string, isBehind = false) => {
    const aside = setAside(path, now);
    const kept = aside === undefined || path !== of ? '' : `; it is kept as ${aside}`;
    const what = `The state database ${of} could not be used: ${damage}${kept}. stickpin goes on with`;
    const restored = restore(path, options);
    if (isBehind && aside !== undefined && restored !== undefined) takeHistory(aside, path);
    const loss: StateLoss =
      restored === undefined
        ? {
            left: 'nothing',
            message: `${what} a new one: all pins stay, no key that a bundle brought is trusted, and each release is known again as far as the node has its documents, or when its stick is plugged in`,
          }
        : {
            left: restored.left,
            message: `${what} ${restored.path} of ${new Date(restored.writtenAt).toISOString()}: ${restored.isNewest ? 'the history before it is lost' : 'what was recorded after that is lost'}${restored.lacks === undefined ? '' : `, with parts of that file: ${restored.lacks}`}. All pins stay; look at 'stickpin list'`,
          };
    return { opened: open(), loss };
  };
  const strange = strangeFile(path);
  if (strange !== undefined) return startAnew(strange);
  makePrivate(path);
  try {
    const damage = damageOf(path, options);
    if (damage !== undefined) return startAnew(damage, damage === BEHIND);
    return { opened: open(), loss: undefined };
  } catch (error) {
    if (isDamage(error)) return startAnew(reasonOf(error));
    throw error;
  }
}

type Restored = Omit<Generation, 'content'> & Pick<StateLoss, 'left'>;

/**
 * Makes the database again. Undefined when nothing is left to make it of.
 * @throws as {@link setAside}; then there is no database
 */
function restore(path: string, { revive, mirror, of = path }: RenewOptions): Restored | undefined {
  const staged = `${path}.new`;
  const drop = () => {
    for (const suffix of SUFFIXES) rmSync(`${staged}${suffix}`, { recursive: true, force: true });
  };
  /** Whether the staged database is whole, and is in its place now. */
  const isPut = (left: StateLoss['left'], hidden?: string) => {
    if (left !== 'nothing' && damageOf(staged, { revive, of }) !== undefined) return false;
    if (left !== 'mirror') recordLoss(staged, left, hidden);
    // A reader of a database in WAL mode leaves these behind.
    for (const suffix of ['-wal', '-shm']) rmSync(`${staged}${suffix}`, { force: true });
    syncNow(staged);
    renameSync(staged, path);
    syncNow(dirname(path));
    return true;
  };
  try {
    for (const generation of mirror.generations()) {
      drop();
      const content = contentOf(generation, mirror);
      if (content === undefined) continue;
      try {
        writeDatabase(content, staged);
      } finally {
        content.close();
      }
      const left = generation.isNewest && generation.lacks === undefined ? 'mirror' : 'earlier';
      if (isPut(left)) return { ...generation, left };
      mirror.doubt(generation, 'its content is no state');
    }
    drop();
    isPut('nothing', mirror.hidden(path === of));
    return undefined;
  } catch (error) {
    drop();
    if (error instanceof AppError) throw error;
    throw cannotKeep(path, `the mirror of ${of}`, error);
  }
}

/** In the database itself: what a loss implies holds until it is recorded, also after a kill. */
function recordLoss(path: string, left: StateLoss['left'], hidden: string | undefined): void {
  const database = openDatabase(path);
  try {
    const put = database.prepare('INSERT OR REPLACE INTO document (name, content) VALUES (?, ?)');
    put.run('loss', left);
    if (hidden !== undefined) put.run('hidden-revocations', hidden);
  } finally {
    database.close();
  }
}

function contentOf(generation: Generation, mirror: Mirror): Database.Database | undefined {
  try {
    return databaseFrom(generation.content);
  } catch (error) {
    mirror.doubt(generation, reasonOf(error));
    return undefined;
  }
}

/** Undefined when it is usable. Changes nothing. Without `mirror` it may be absent from it. */
function damageOf(
  path: string,
  { revive, mirror, of = path }: Pick<RenewOptions, 'revive' | 'of'> & { readonly mirror?: Mirror },
): string | undefined {
  if (!existsSync(path) || statSync(path).size === 0) {
    const isLost =
      mirror?.exists() || existsSync(`${path}-wal`) || TRACES.some((name) => existsSync(join(dirname(of), name)));
    if (!isLost) return undefined;
    // The disk of its target may not be mounted.
    const isLink = lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink();
    if (isLink && !existsSync(path)) throw cannotOpen(path, new Error(MISSING_TARGET));
    return existsSync(path) ? 'it is empty' : 'it is gone';
  }
  let database: Database.Database | undefined;
  try {
    if (!hasUsableHeader(path)) return 'its header is damaged';
    database = new Database(path, { readonly: true, fileMustExist: true });
    const verdict = database.pragma('integrity_check(1)', { simple: true });
    if (verdict !== 'ok') return findingOf(String(verdict));
    if (isEmpty(database)) return mirror?.exists() ? 'it is empty' : undefined;
    const hasMirror = () => mirror !== undefined && [...mirror.generations()].length > 0;
    if (!isOurs(database) && hasMirror()) return 'it is no state database of stickpin';
    checkVersion(database, of);
    registerRowSum(database);
    const [orphan] = database.pragma('foreign_key_check') as readonly { readonly table: string }[];
    if (orphan !== undefined) return `a row of its table ${orphan.table} lacks its content`;
    const table = tableWithWrongSum(database);
    if (table !== undefined) return `a row of its table ${table} is not as it was written (wrong checksum)`;
    checkBundles(database, revive, of);
    return mirror !== undefined && isBehind(database, mirror) ? BEHIND : undefined;
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
 * Of the same database, and the mirror has seen more of it. A file with the log of another time has
 * pages of both: its history may be older than the mirror although its counter is not.
 */
function isBehind(database: Database.Database, mirror: Mirror): boolean {
  const [newest] = [...mirror.generations()].map(({ content }) => content);
  const { origin, counter, revision } = ageOf(database);
  if (newest?.origin !== origin) return false;
  // One that was made from the mirror has no history yet.
  const isMixed = revision > 0 && newest.revision > revision;
  return isMixed || (newest.counter > counter && newest.revision >= revision);
}

/** Only the database itself may be a link: SQLite follows none to its log. */
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

/** In one line, without the heading. */
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

/** With its log. Undefined when there was no file. @throws AppError `store/aside` (`fatal`) */
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

export function syncNow(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}
