import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, open, opendir, readlink } from 'node:fs/promises';
import { quotedPath } from '../plain-text.ts';

/**
 * A folder that is held by a descriptor. It stays the same folder even if a part of its path is
 * renamed, removed or replaced by a link, and files are opened in this folder only. Names have no
 * slash; links are never followed.
 */
export interface HeldFolder {
  /** Its path, for messages. */
  readonly path: string;
  /** lstat of a name. @throws system errors, for example `ENOENT` */
  stat(name: string): Promise<Stats>;
  /** The target of a link. @throws system errors; `EINVAL` when it is not a link */
  readLink(name: string): Promise<string>;
  /** The names in it, at most `limit`, in no order. @throws system errors */
  names(limit: number): Promise<string[]>;
  /**
   * Opens a file for reading without waiting for a pipe. @throws system errors; `ELOOP` for a link
   */
  openFile(name: string): Promise<FileHandle>;
  /** Opens a folder in it. @throws system errors; `ENOTDIR` for a link and for a file */
  openFolder(name: string): Promise<HeldFolder>;
  /** Closes it after the running calls have ended. Later calls fail. Idempotent. */
  close(): Promise<void>;
}

/** `O_PATH` of open(2), which Node.js does not export: holds the folder without reading it. */
const O_PATH = 0o10000000;
const HOLD = O_PATH | constants.O_DIRECTORY;
/** Limit of links in a path, as in the kernel. */
const MAX_LINKS = 40;

/** Holds the folder at a path from a user. Links are followed. @throws system errors */
export async function holdFolder(path: string): Promise<HeldFolder> {
  return heldBy(await open(path, HOLD), path);
}

/**
 * Holds the folder at an absolute path that other users may change while a root program reads it.
 * The path is opened name by name. A link is followed only if root or this user owns it, in a
 * folder where nobody else can replace it. Such a link is `/mnt` on systems that keep it below
 * `/var`.
 *
 * @throws system errors; `ENOTDIR` for any other link
 */
export async function holdWithoutLinks(path: string): Promise<HeldFolder> {
  const names = namesOf(path);
  let folder = await holdFolder('/');
  let links = 0;
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    const from = folder;
    try {
      const target = await trustedLink(from, name);
      if (target === undefined) folder = await from.openFolder(name);
      else {
        links += 1;
        if (links > MAX_LINKS) throw systemError('ELOOP', `too many links on the way to ${path}`);
        names.unshift(...namesOf(target));
        folder = target.startsWith('/') ? await holdFolder('/') : await from.openFolder('.');
      }
    } finally {
      await from.close();
    }
  }
  return folder;
}

/**
 * Holds the folder at a path of several names below `root`. @throws system errors; `ENOTDIR` for a
 * link
 */
export async function holdBelow(root: HeldFolder, names: readonly string[]): Promise<HeldFolder> {
  let folder = await root.openFolder('.');
  for (const name of names) {
    const from = folder;
    try {
      folder = await from.openFolder(name);
    } finally {
      await from.close();
    }
  }
  return folder;
}

/** Runs `use` with a folder, then closes it. */
export async function withFolder<T>(opening: Promise<HeldFolder>, use: (folder: HeldFolder) => Promise<T>): Promise<T> {
  const folder = await opening;
  try {
    return await use(folder);
  } finally {
    await folder.close();
  }
}

/** A folder that several uses share. */
interface Shared {
  readonly folder: Promise<HeldFolder | undefined>;
  users: number;
}

/**
 * Shares one open folder between uses. It is opened for the first one. It is closed after the last
 * one, but not before `keepMs` milliseconds have passed since it was opened. Default 0: it is not
 * open between uses. A missing folder is tried again by the next use.
 */
export function shareFolder(opening: () => Promise<HeldFolder | undefined>, keepMs = 0) {
  let current: Shared | undefined;
  const forget = (shared: Shared) => {
    if (current === shared) current = undefined;
  };
  const leave = async (shared: Shared) => {
    shared.users -= 1;
    if (shared.users > 0) return;
    forget(shared);
    await (await shared.folder.catch(() => undefined))?.close();
  };
  const open = (): Shared => {
    const shared: Shared = { folder: opening(), users: 0 };
    const keep = (folder: HeldFolder | undefined) => {
      if (folder === undefined || keepMs === 0) return;
      shared.users += 1;
      setTimeout(() => void leave(shared).catch(() => undefined), keepMs).unref(); // the kernel closes it with the process
    };
    shared.folder.then(keep, () => undefined);
    return shared;
  };
  return async <T>(use: (folder: HeldFolder | undefined) => Promise<T>): Promise<T> => {
    current ??= open();
    const mine = current;
    mine.users += 1;
    try {
      const folder = await mine.folder;
      if (folder === undefined) forget(mine);
      return await use(folder);
    } finally {
      await leave(mine);
    }
  };
}

function heldBy(handle: FileHandle, path: string): HeldFolder {
  // This path works only in this process, and needs only the permission to search the folder.
  const at = `/proc/self/fd/${handle.fd}`;
  let underWay = 0;
  let closing: Promise<void> | undefined;
  let finish: () => void = () => undefined;
  /**
   * INVARIANT: the descriptor is open while a call uses its number. The kernel may give the number
   * of a closed descriptor to another folder.
   */
  const run = async <T>(call: () => Promise<T>): Promise<T> => {
    if (closing !== undefined) throw systemError('ESTALE', `${path} is no longer held`);
    underWay += 1;
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      const [begin, end] = error.message.split(at);
      if (end !== undefined) error.message = `${begin}${quotedPath(`${path}${end.slice(0, -1)}`)}'`;
      throw error;
    } finally {
      underWay -= 1;
      if (underWay === 0) finish();
    }
  };
  const inside = (name: string) => `${at}/${singleName(name)}`;
  return {
    path,
    stat: (name) => run(() => lstat(inside(name))),
    readLink: (name) => run(() => readlink(inside(name))),
    names: async (limit) => {
      const names: string[] = [];
      if (limit === 0) return names;
      for await (const { name } of await run(() => opendir(`${at}/.`))) {
        names.push(name);
        // The total number of names is not known.
        if (names.length === limit) break;
      }
      return names;
    },
    openFile: (name) => run(() => open(inside(name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)),
    openFolder: async (name) =>
      heldBy(
        await run(() => open(inside(name), HOLD | constants.O_NOFOLLOW)),
        name === '.' ? path : `${path === '/' ? '' : path}/${name}`,
      ),
    close: () => {
      closing ??= new Promise<void>((resolve) => {
        if (underWay === 0) resolve();
        else finish = resolve;
      }).then(() => handle.close());
      return closing;
    },
  };
}

/** The target of a link that may be followed. Returns undefined for other links and files. */
async function trustedLink(folder: HeldFolder, name: string): Promise<string | undefined> {
  const link = await folder.stat(name);
  if (!link.isSymbolicLink() || !isOurs(link)) return undefined;
  const holder = await folder.stat('.');
  const isSticky = (holder.mode & 0o1000) !== 0;
  const isWritable = (holder.mode & 0o022) !== 0;
  if (!isOurs(holder) || (isWritable && !isSticky)) return undefined;
  return folder.readLink(name);
}

function isOurs({ uid }: Stats): boolean {
  return uid === 0 || uid === process.geteuid?.();
}

function namesOf(path: string): string[] {
  return path.split('/').filter((name) => name !== '' && name !== '.');
}

function singleName(name: string): string {
  if (name === '' || name.includes('/') || name.includes('\0'))
    throw systemError('ENOENT', `${name} is not a file name`);
  return name;
}

function systemError(code: string, message: string): Error {
  return Object.assign(new Error(`${code}: ${message}`), { code });
}
