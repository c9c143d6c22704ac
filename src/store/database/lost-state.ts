import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
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
import { cannotOpen, isDamage } from './database.ts';
import { MIGRATIONS } from './migrations.ts';
import { registerRowSum, tableWithWrongSum } from './row-sums.ts';
import { hasCopy, type RestoredCopy, restoreCopy } from './state-copies.ts';
import { type BundleReviver, loadBundles } from './tables/bundle-rows.ts';
import { walDamage } from './wal.ts';

/** The log first: if it were left after a crash, SQLite would apply it to the new database. */
const SUFFIXES = ['-wal', '-shm', ''] as const;

/** Files that an earlier daemon leaves beside its database. */
const TRACES = ['floors.json', 'pins.json', 'status.json', 'crio/99-stickpin.conf'] as const;

export interface RenewOptions {
  readonly revive: BundleReviver;
  /** Milliseconds since the epoch, for the new name of a damaged database. */
  readonly now: number;
  /** The real database, when a copy of it is opened: its copies are tried, and `loss` names it. */
  readonly of?: string;
}

/**
 * Opens the state database with `open`. A damaged one is renamed with its log to
 * `state.db.damaged-<time>`, and replaced by its newest copy without damage, or by a new one. Then
 * `loss` is a sentence with the path and what to do. The same holds for a missing database beside
 * other files of an earlier daemon. A full or read-only disk and missing permissions are not
 * damage.
 * @throws errors of `open`; AppError `store/aside` (`fatal`), `store/no-space`, `store/read-only`
 *   (`retry`) when the database can't be renamed
 */
export function openOrRenew<T>(
  path: string,
  { revive, now, of = path }: RenewOptions,
  open: () => T,
): { readonly opened: T; readonly loss: string | undefined } {
  const startAnew = (damage: string) => {
    const aside = setAside(path, now);
    const kept = aside === undefined || path !== of ? '' : `; it is kept as ${aside}`;
    const what = `The state database ${of} could not be used: ${damage}${kept}. stickpin goes on with`;
    const copy = restore(path, of, revive);
    const loss =
      copy === undefined
        ? `${what} a new one: all pins stay, and each release is known again as far as the node has its documents, or when its stick is plugged in`
        : `${what} its copy ${copy.path} of ${new Date(copy.writtenAt).toISOString()}: what was recorded after that is lost. All pins stay; look at 'stickpin list'`;
    return { opened: open(), loss };
  };
  const strange = strangeFile(path);
  if (strange !== undefined) return startAnew(strange);
  makePrivate(path);
  const cut = existsSync(path) && statSync(path).size > 0 ? walDamage(`${path}-wal`) : undefined;
  const copy = cut === undefined ? undefined : copyAside(path, now);
  try {
    const damage = damageOf(path, revive, of);
    if (damage !== undefined) return startAnew(damage);
    const opened = open();
    if (cut === undefined) return { opened, loss: undefined };
    const kept = path === of ? `; both are kept as ${copy}` : '';
    const loss = `The log of the state database, ${of}-wal, could not be used: ${cut}. What was recorded last is lost${kept}. All pins stay; look at 'stickpin list', and plug in the stick of each release that is missing there`;
    return { opened, loss };
  } catch (error) {
    if (isDamage(error)) return startAnew(reasonOf(error));
    if (copy !== undefined) for (const suffix of ['', '-wal']) rmSync(`${copy}${suffix}`, { force: true });
    throw error;
  }
}

/** @throws as {@link setAside}; then there is no database */
function restore(path: string, of: string, revive: BundleReviver): RestoredCopy | undefined {
  try {
    return restoreCopy(path, of, (staged) => damageOf(staged, revive));
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw cannotKeep(path, `a copy of ${of}`, error);
  }
}

/** Undefined when it is usable. Changes nothing. `of`: the database whose copies count. */
function damageOf(path: string, revive: BundleReviver, of = path): string | undefined {
  if (!existsSync(path) || statSync(path).size === 0) {
    const isLost =
      hasCopy(of) || existsSync(`${path}-wal`) || TRACES.some((name) => existsSync(join(dirname(of), name)));
    if (!isLost) return undefined;
    return existsSync(path) ? 'it is empty' : 'it is gone';
  }
  let database: Database.Database | undefined;
  try {
    if (!hasUsableHeader(path)) return 'its header is damaged';
    database = new Database(path, { readonly: true, fileMustExist: true });
    const verdict = database.pragma('integrity_check(1)', { simple: true });
    if (verdict !== 'ok') return findingOf(String(verdict));
    const version = Number(database.pragma('user_version', { simple: true }));
    if (version > MIGRATIONS.length) {
      return `it has schema ${version} and this stickpin knows ${MIGRATIONS.length}. If a newer stickpin wrote it, install that one again and put the file back`;
    }
    if (version < MIGRATIONS.length) return undefined;
    registerRowSum(database);
    const table = tableWithWrongSum(database);
    if (table !== undefined) return `a row of its table ${table} is not as it was written (wrong checksum)`;
    loadBundles(database, revive);
    return undefined;
  } catch (error) {
    if (!isDamage(error)) throw cannotOpen(path, error);
    return reasonOf(error);
  } finally {
    database?.close();
  }
}

/** Only the database itself may be a link: SQLite follows none to its log. */
function strangeFile(path: string): string | undefined {
  for (const suffix of SUFFIXES) {
    const of = suffix === '' ? statSync : lstatSync;
    if (of(`${path}${suffix}`, { throwIfNoEntry: false })?.isFile() === false) return `${path}${suffix} is not a file`;
  }
  return undefined;
}

/** Earlier versions let all users read the database. */
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

/** With its log, which SQLite would overwrite where it is damaged. @throws as {@link setAside} */
function copyAside(path: string, now: number): string {
  const aside = damagedName(path, now);
  try {
    for (const suffix of ['', '-wal']) copyFileSync(`${path}${suffix}`, `${aside}${suffix}`);
    return aside;
  } catch (error) {
    throw cannotKeep(path, aside, error);
  }
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
