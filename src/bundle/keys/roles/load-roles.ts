import { join } from 'node:path';
import type { Role } from '../../../domain/trust/role.ts';
import { reasonOf } from '../../../platform/app-error.ts';
import { oneLine } from '../../../platform/plain-text.ts';
import { limits } from '../../limits.ts';
import { parsePublicKey } from '../keys.ts';
import { isDiskFault, type KeyProblem, readGuardedKeyFile } from '../keys-folder.ts';
import type { TrustedKey } from '../trusted-keys.ts';
import { isOfOtherKind, parseRoleFile, type RoleKeySource, roleError } from './role-file.ts';

/** The result of reading the role files of a folder. */
export interface LoadedRoles {
  /** Sorted by name, without those that have a fault. */
  readonly roles: readonly Role[];
  /** Keys of these roles. */
  readonly keys: readonly TrustedKey[];
  /** Keys that are in two places: they count nowhere. */
  readonly ambiguous: ReadonlySet<string>;
  readonly problems: readonly KeyProblem[];
  /** Files of the folder that a role names, even a role with a fault. */
  readonly keyFiles: ReadonlySet<string>;
}

/** The input of {@link loadRoles}. */
export interface RolesFolder {
  readonly folder: string;
  /** All names in the folder. */
  readonly names: readonly string[];
  /** As in `KeysFolderRules`. */
  readonly ownUid: number | undefined;
  /** Files with a private key: a role in one has a fault, which is a problem already. */
  readonly exposed: ReadonlySet<string>;
  /** The keys of the `*.pub` files, revoked ones too. */
  readonly plain: readonly TrustedKey[];
}

/** The keys of one file, even of a file with a fault. */
interface KeysOfFile {
  readonly file: string;
  readonly keys: readonly Pick<TrustedKey, 'keyId'>[];
}

interface LoadedRole extends KeysOfFile {
  readonly role: Role;
  readonly keys: readonly TrustedKey[];
}

/**
 * Loads the roles of a folder, one `*.toml` file each. Never throws for the content. A role with a
 * fault in its file, or in a key file that it names, is left out. So is a role with a key that is
 * also in a `*.pub` file or in another role, also one with a fault; such a key counts nowhere,
 * since it is unclear what it may sign.
 */
export async function loadRoles(from: RolesFolder, signal: AbortSignal): Promise<LoadedRoles> {
  const problems: KeyProblem[] = [];
  const keyFiles = new Set<string>();
  const read: LoadedRole[] = [];
  const faulty: KeysOfFile[] = [];
  for (const file of from.names.filter((name) => name.endsWith('.toml'))) {
    if (from.exposed.has(file)) {
      faulty.push({ file, keys: await keysIn(file, from, signal) });
      continue;
    }
    try {
      read.push(await readRole(file, from, keyFiles, signal));
    } catch (error) {
      signal.throwIfAborted();
      problems.push(problemOf(file, error));
      faulty.push({ file, keys: await keysIn(file, from, signal) });
    }
  }
  const { ambiguous, places } = ambiguousAmong([...read, ...faulty], from.plain);
  const isShared = ({ file, keys }: KeysOfFile): boolean => {
    const twice = keys.find(({ keyId }) => ambiguous.has(keyId));
    if (twice === undefined) return false;
    const where = (places.get(twice.keyId) ?? []).join(' and ');
    const why = `key ${twice.keyId.slice(0, 12)}… is in ${where}, and does not count in any of them`;
    problems.push(problemOf(file, roleError(join(from.folder, file), why)));
    return true;
  };
  const sound = read.filter((one) => !isShared(one));
  for (const one of faulty) isShared(one);
  return {
    roles: sound.map(({ role }) => role),
    keys: sound.flatMap(({ keys }) => keys),
    ambiguous,
    problems,
    keyFiles,
  };
}

async function readRole(
  file: string,
  { folder, ownUid }: RolesFolder,
  keyFiles: Set<string>,
  signal: AbortSignal,
): Promise<LoadedRole> {
  const path = join(folder, file);
  const read = (one: string, maxBytes: number) => readStrictly({ path, folder, file: one, maxBytes, ownUid }, signal);
  const text = await read(file, limits.roleFileBytes);
  const { keys: sources, ...role } = parseRoleFile(text, path, file.slice(0, -'.toml'.length));
  for (const source of sources) if (source.kind === 'file') keyFiles.add(source.file);
  const keys: TrustedKey[] = [];
  for (const [at, source] of sources.entries()) {
    const pem = source.kind === 'pem' ? source.pem : await read(source.file, limits.keyFileBytes);
    keys.push(keyOf(role.name, source, pem, { path, at }));
  }
  const twice = keys.find((key, at) => keys.findIndex(({ keyId }) => keyId === key.keyId) !== at);
  if (twice !== undefined) throw roleError(path, `keys names key ${twice.keyId.slice(0, 12)}… twice`);
  return { file, role, keys: keys.sort((a, b) => (a.name < b.name ? -1 : 1)) };
}

/**
 * The keys that a role file with a fault names, as far as they can be found in its text: public
 * keys in PEM, and files of the folder. Never throws but for an abort.
 */
async function keysIn(
  file: string,
  { folder, names, ownUid }: RolesFolder,
  signal: AbortSignal,
): Promise<KeysOfFile['keys']> {
  const read = (one: string) =>
    readGuardedKeyFile(join(folder, one), ownUid, signal, { maxBytes: limits.roleFileBytes, mayBeLink: true }).then(
      ({ text }) => text,
      () => '',
    );
  const text = (await read(file)).replaceAll('\\n', '\n');
  const named = names.filter((name) => !isOfOtherKind(name) && text.includes(name)).slice(0, limits.roleKeys);
  const texts = [text, ...(await Promise.all(named.map(read)))];
  signal.throwIfAborted();
  return texts
    .flatMap((one) => one.match(PEM_KEYS) ?? [])
    .flatMap((pem) => {
      try {
        return [parsePublicKey(pem, file)];
      } catch {
        return [];
      }
    });
}

const PEM_KEYS = /-----BEGIN PUBLIC KEY-----[^-]*-----END PUBLIC KEY-----/g;

interface StrictRead {
  /** The role's file, for errors. */
  readonly path: string;
  readonly folder: string;
  readonly file: string;
  readonly maxBytes: number;
  readonly ownUid: number | undefined;
}

/**
 * A file that others may write, or that is a link, is not trusted.
 *
 * @throws AppError `bundle/role-file`, `bundle/key-file` (`reject`)
 */
async function readStrictly({ path, folder, file, maxBytes, ownUid }: StrictRead, signal: AbortSignal) {
  const { text, fault } = await readGuardedKeyFile(join(folder, file), ownUid, signal, {
    maxBytes,
    mayBeLink: false,
  });
  if (fault !== undefined) throw roleError(path, `${fault.message} (${fault.remedy})`);
  return text;
}

function keyOf(
  role: string,
  source: RoleKeySource,
  pem: string,
  { path, at }: { readonly path: string; readonly at: number },
): TrustedKey {
  const where = source.kind === 'file' ? `${source.file} of role ${path}` : `${at + 1} of role ${path}`;
  const key = parsePublicKey(pem, where);
  const label = source.kind === 'file' ? oneLine(source.file.replace(/\.pem$/, '')) : key.keyId.slice(0, 12);
  return { ...key, name: `${role}/${label}`, role };
}

/** Keys of roles that are in a second place too, and the names of these files. */
function ambiguousAmong(roles: readonly KeysOfFile[], plain: readonly TrustedKey[]) {
  const places = new Map<string, string[]>();
  const add = (keyId: string, file: string) => void places.set(keyId, [...(places.get(keyId) ?? []), file]);
  for (const { file, keys } of roles) for (const keyId of new Set(keys.map((key) => key.keyId))) add(keyId, file);
  for (const { keyId, name } of plain) if (places.has(keyId)) add(keyId, `${name}.pub`);
  const ambiguous = new Set([...places].flatMap(([keyId, files]) => (files.length > 1 ? [keyId] : [])));
  return { ambiguous, places };
}

function problemOf(file: string, error: unknown): KeyProblem {
  const message = reasonOf(error);
  return {
    file,
    message: message.includes('nothing is trusted by this file')
      ? message
      : `${message}; nothing is trusted by role ${file}`,
    remedy: 'repair the file or move it away',
    hidesRevocations: isDiskFault(error),
  };
}
