import { join } from 'node:path';
import { parse } from 'toml';
import * as v from 'valibot';
import { parseReference } from '../../domain/model/reference.ts';
import { isRoleName, type Role } from '../../domain/trust/role.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { schemaFault, tomlFault } from '../../platform/schema-fault.ts';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { parsePublicKey } from './keys.ts';
import { isDiskFault, type KeyProblem, readGuardedKeyFile } from './keys-folder.ts';
import type { TrustedKey } from './trusted-keys.ts';

interface LoadedRoles {
  /** Sorted by name, without faulty ones. */
  readonly roles: readonly Role[];
  readonly keys: readonly TrustedKey[];
  /** Ids of keys in two roles, or in a role and among the plain keys. No such key is trusted. */
  readonly ambiguous: ReadonlySet<string>;
  readonly problems: readonly KeyProblem[];
  /** Named by a role, even a faulty one. */
  readonly keyFiles: ReadonlySet<string>;
}

interface RolesFolder {
  readonly folder: string;
  readonly names: readonly string[];
  readonly ownUid: number | undefined;
  /** Files with a private key: a role in one is faulty, which is a problem already. */
  readonly exposed: ReadonlySet<string>;
  /** The keys of the `*.pub` files, including revoked ones. */
  readonly plain: readonly TrustedKey[];
}

/** The keys of a file, even of a faulty one. */
interface KeysOfFile {
  readonly file: string;
  readonly keys: readonly Pick<TrustedKey, 'keyId'>[];
}

interface LoadedRole extends KeysOfFile {
  readonly role: Role;
  readonly keys: readonly TrustedKey[];
}

/**
 * Loads one role for each `*.toml`. Never throws for the content. A faulty file or key file is left
 * out, and so is a key that is in two places: it counts nowhere, since it is unclear what it may
 * sign.
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

/** Keys in the text of a faulty role file. Throws only on abort. */
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
  readonly path: string;
  readonly folder: string;
  readonly file: string;
  readonly maxBytes: number;
  readonly ownUid: number | undefined;
}

/**
 * Others may not write it, and it is no link. @throws AppError `bundle/role-file`,
 * `bundle/key-file`
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

/** Keys of roles in a second place, and the names of these files. */
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

/** A file of the folder, or the role's file itself. */
type RoleKeySource = { readonly kind: 'file'; readonly file: string } | { readonly kind: 'pem'; readonly pem: string };

interface RoleFile extends Role {
  readonly keys: readonly RoleKeySource[];
}

const STREAM_PATTERN = /^[a-z0-9*?-]{1,63}$/;
/** The name is no path, not hidden, and has no suffix with another meaning. */
const KEY_FILE = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,254}$/;
const OTHER_KINDS = /\.(pub|revoked|toml)$/i;
const PEM = /-----BEGIN/;

function atMost(most: number) {
  return v.maxLength<string[], number, string>(most, `must have at most ${most} entries`);
}

/** `keys.d/<name>.toml`. */
export const roleSchema = v.strictObject({
  threshold: v.pipe(
    v.number('must be a whole number from 1'),
    v.safeInteger('must be a whole number'),
    v.minValue(1, 'must be at least 1'),
    v.maxValue(limits.roleKeys, `must be at most ${limits.roleKeys}, since a role has no more keys`),
  ),
  streams: v.pipe(
    v.array(
      v.pipe(
        v.string('must be a text'),
        v.regex(STREAM_PATTERN, 'must be the name of a stream (a-z, 0-9, -), with * and ? as wildcards'),
      ),
      'must be a list of texts',
    ),
    v.minLength(1, 'must name at least one stream, as "customer-*"'),
    atMost(limits.rolePatterns),
  ),
  repositories: v.pipe(
    v.array(
      v.pipe(
        v.string('must be a text'),
        v.maxLength(limits.roleFileBytes),
        v.check(
          isRepositoryPrefix,
          'must be a registry, or a registry with a path, such as "registry.example.com/cust": host in lower case, no tag, no / at the end',
        ),
      ),
      'must be a list of texts',
    ),
    atMost(limits.rolePatterns),
  ),
  may_rotate: v.optional(v.boolean('must be true or false'), false),
  may_keep_for_life: v.optional(v.boolean('must be true or false'), false),
  max_bytes: v.optional(
    v.pipe(
      v.number('must be a number of bytes'),
      v.safeInteger('must be a whole number of bytes'),
      v.minValue(1, 'must be at least 1'),
    ),
  ),
  keys: v.pipe(
    v.array(
      v.pipe(
        v.string('must be a text'),
        v.maxLength(limits.roleFileBytes),
        v.check(
          (text) => PEM.test(text) || isKeyFileName(text),
          'must be the name of a file in this folder that does not end in .pub, .revoked or .toml, or a public key in PEM',
        ),
      ),
      'must be a list of texts',
    ),
    v.minLength(1, 'must name at least one key'),
    atMost(limits.roleKeys),
  ),
});

/**
 * Unknown members are refused: a misspelt limit must not be ignored.
 *
 * @throws AppError `bundle/role-file` that names the file and the member
 */
function parseRoleFile(text: string, path: string, name: string): RoleFile {
  if (!isRoleName(name)) {
    throw roleError(path, 'its name is not valid for a role: use 1 to 63 of a-z, 0-9 and -, then .toml');
  }
  const result = v.safeParse(roleSchema, parseToml(text, path));
  if (!result.success) throw roleError(path, whyOf(result.issues[0]));
  const {
    may_rotate: mayRotate,
    may_keep_for_life: mayKeepForLife,
    max_bytes: maxBytes,
    keys,
    ...limited
  } = result.output;
  const sources = keys.map(
    (key): RoleKeySource => (PEM.test(key) ? { kind: 'pem', pem: key } : { kind: 'file', file: key }),
  );
  return defined({ name, ...limited, mayRotate, mayKeepForLife, maxBytes, keys: sources });
}

function roleError(path: string, why: string, cause?: unknown) {
  return bundleError('bundle/role-file', `role ${path}: ${why}; nothing is trusted by this file`, { cause });
}

function parseToml(text: string, path: string): unknown {
  try {
    return { ...(parse(text) as object) };
  } catch (cause) {
    throw roleError(path, `it is not TOML: ${tomlFault(cause).reason}`, cause);
  }
}

function whyOf(issue: v.BaseIssue<unknown>): string {
  const member = v.getDotPath(issue) ?? 'the file';
  if (issue.expected === 'never') return `${member} is not a key of a role file, check its spelling`;
  return `${member} ${schemaFault(issue, { object: 'a table' })}`;
}

function isKeyFileName(text: string): boolean {
  return KEY_FILE.test(text) && !isOfOtherKind(text);
}

function isOfOtherKind(file: string): boolean {
  return OTHER_KINDS.test(file);
}

/** Canonical, like all references of bundles: other forms never match. */
function isRepositoryPrefix(text: string): boolean {
  const below = `${text}/x/y`;
  try {
    const { repository, tag, digest } = parseReference(below);
    return repository === below && tag === undefined && digest === undefined;
  } catch {
    return false;
  }
}

/** A role with fewer keys stays in force: what it has let in keeps its trust. */
export function shortRole(
  { name, threshold }: Role,
  keys: readonly { readonly name: string }[],
): KeyProblem | undefined {
  if (keys.length >= threshold) return undefined;
  const file = `${name}.toml`;
  const names = keys.map((key) => key.name).join(', ') || 'no key';
  return {
    file,
    message: `role ${name} asks for ${threshold} distinct keys, and has ${names}: nothing can be trusted by it`,
    remedy: `add keys to ${file}, or lower its threshold`,
    hidesRevocations: false,
  };
}
