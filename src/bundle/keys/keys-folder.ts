import type { Stats } from 'node:fs';
import { constants, lstat, open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { openAccess } from '../../platform/files/file-access.ts';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { holdsPrivateKey } from './keys.ts';

/** `message` names the path and says why, `remedy` what to do. */
export interface KeyProblem {
  /** A name in the folder, or the folder's path. */
  readonly file: string;
  readonly message: string;
  readonly remedy: string;
  /** A revocation may be hidden, so no key counts. */
  readonly hidesRevocations: boolean;
  readonly isPrivateKey?: true;
}

export function keyProblemLine({ message, remedy }: KeyProblem): string {
  return `${message}; ${remedy}`;
}

export interface KeysFolderRules {
  /** It was read before, so it must exist. Default false. */
  readonly wasSeen?: boolean;
  /** The only user beside root who may own or write key files. Default: not checked. */
  readonly ownUid?: number;
}

/** Hidden names are left out. */
export interface KeysListing {
  /** Sorted; empty when the folder can't be listed. */
  readonly names: readonly string[];
  readonly problems: readonly KeyProblem[];
  readonly isListed: boolean;
}

/** Never throws for its content. A folder that never existed contains no key. */
export async function listKeysFolder(folder: string, { wasSeen, ownUid }: KeysFolderRules): Promise<KeysListing> {
  const fail = (message: string, remedy: string): KeysListing => ({
    names: [],
    problems: [{ file: folder, message: `${folder} ${message}`, remedy, hidesRevocations: true }],
    isListed: false,
  });
  try {
    const fault = accessFault(folder, await stat(folder), ownUid);
    const names = (await readdir(folder)).filter((name) => !name.startsWith('.')).sort();
    if (names.length > limits.keys) {
      return fail(
        `holds more than ${limits.keys} files, and none is read`,
        `remove files that are neither *.pub nor *.revoked; one *.revoked file may name many key ids`,
      );
    }
    return { names, problems: fault === undefined ? [] : [{ ...fault, file: folder }], isListed: true };
  } catch (error) {
    if (systemCodeOf(error) !== 'ENOENT') {
      return fail(`can't be read: ${reasonOf(error)}`, `make it a folder that root can read, with mode 0755`);
    }
    if (await isLink(folder))
      return fail('is a link without a target', 'repair the link, or make a folder in its place');
    if (wasSeen !== true) return { names: [], problems: [], isListed: false };
    return fail(
      'is missing, but existed before',
      `create it again with its files; if it had none: install -d -m 0755 ${folder}`,
    );
  }
}

/** `fault`: of its owner or mode. */
export interface KeyFileText {
  readonly text: string;
  readonly bytes: Buffer;
  readonly fault?: Omit<KeyProblem, 'file'>;
}

export interface KeyFileForm {
  /** Default 16 KiB. */
  readonly maxBytes?: number;
  readonly mayBeLink?: boolean;
}

/** @throws AppError `bundle/key-file` (`reject`) */
export async function readGuardedKeyFile(
  path: string,
  ownUid: number | undefined,
  signal: AbortSignal,
  { maxBytes = limits.keyFileBytes, mayBeLink = true }: KeyFileForm = {},
): Promise<KeyFileText> {
  try {
    // Opening a FIFO without O_NONBLOCK would block.
    const flags = constants.O_RDONLY | constants.O_NONBLOCK | (mayBeLink ? 0 : constants.O_NOFOLLOW);
    const handle = await open(path, flags);
    try {
      const found = await handle.stat();
      if (!found.isFile() || found.size > maxBytes) {
        throw bundleError('bundle/key-file', `key file ${path} is not a file of at most ${maxBytes} bytes`);
      }
      const bytes = await handle.readFile({ signal });
      const fault = accessFault(path, found, ownUid);
      return { text: bytes.toString(), bytes, ...(fault !== undefined && { fault }) };
    } finally {
      await handle.close();
    }
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof AppError || systemCodeOf(cause) === undefined) throw cause;
    if (!mayBeLink && systemCodeOf(cause) === 'ELOOP') {
      throw bundleError('bundle/key-file', `key file ${path} is a symbolic link, and links are not followed here`, {
        cause,
      });
    }
    throw bundleError('bundle/key-file', `key file ${path} can't be read: ${reasonOf(cause)}`, { cause });
  }
}

/** Reads at most 16 KiB. @throws AppError `bundle/key-file` (`reject`) */
export async function readKeyFile(path: string, signal: AbortSignal): Promise<string> {
  return (await readGuardedKeyFile(path, undefined, signal)).text;
}

/** Files of no known kind: a misspelt revocation must be noticed. `keyFiles`: of roles. */
export function strayFiles(
  folder: string,
  names: readonly string[],
  keyFiles: ReadonlySet<string>,
): readonly KeyProblem[] {
  return names
    .filter((name) => !/\.(pub|revoked|toml)$/.test(name) && !keyFiles.has(name))
    .map((name) => ({
      file: name,
      message: `${join(folder, name)} is ignored: only *.pub, *.revoked, *.toml and the key files that a *.toml names are read here`,
      remedy: 'rename the file or move it away',
      hidesRevocations: false,
    }));
}

export async function privateKeyFiles(
  folder: string,
  names: readonly string[],
  signal: AbortSignal,
): Promise<readonly KeyProblem[]> {
  const problems: KeyProblem[] = [];
  for (const file of names) {
    const path = join(folder, file);
    const maxBytes = file.endsWith('.toml') ? limits.roleFileBytes : limits.keyFileBytes;
    const read = await readGuardedKeyFile(path, undefined, signal, { maxBytes }).catch(() => undefined);
    signal.throwIfAborted();
    if (read === undefined || !holdsPrivateKey(read.bytes)) continue;
    problems.push({
      file,
      message: `PRIVATE KEY in ${path}${file.endsWith('.toml') ? ', so nothing is trusted by this role' : ''}`,
      remedy: 'delete it and make a new one, since whoever has read it can sign bundles',
      hidesRevocations: file.endsWith('.revoked'),
      isPrivateKey: true,
    });
  }
  return problems;
}

/** Parent folders are not checked: a replaced keys.d belongs to its maker. */
function accessFault(path: string, found: Stats, ownUid: number | undefined): Omit<KeyProblem, 'file'> | undefined {
  if (ownUid === undefined) return undefined;
  const open = openAccess(path, found, ownUid);
  if (open === undefined) return undefined;
  const message = `${open.message}, so users other than root could add keys or remove revocations`;
  return { message, remedy: open.remedy, hidesRevocations: true };
}

/** An unreadable file may hide revocations. A dangling link counts as no file. */
export function isDiskFault(error: unknown): boolean {
  const code = systemCodeOf(error instanceof Error ? error.cause : undefined);
  return code !== undefined && code !== 'ENOENT' && code !== 'ELOOP';
}

function isLink(path: string): Promise<boolean> {
  return lstat(path).then(
    (found) => found.isSymbolicLink(),
    () => false,
  );
}
