import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import { bundleError } from './bundle-error.ts';
import { type PublicKey, parsePublicKey } from './keys.ts';
import { limits } from './limits.ts';

/** A public key that is trusted under a name: its file's name without `.pub`. */
export interface TrustedKey extends PublicKey {
  readonly name: string;
}

/** A file of the folder that could not be used. `message` names the file and says why. */
interface KeyProblem {
  readonly file: string;
  readonly message: string;
}

/** The keys of one folder. */
export interface TrustedKeys {
  readonly folder: string;
  /** Sorted by name, each key once, revoked ones left out. */
  readonly keys: readonly TrustedKey[];
  readonly problems: readonly KeyProblem[];
  /** Another text whenever keys, names or problems are others; equal for the same. */
  readonly revision: string;
}

/** What a bundle is judged by. `threshold` is how many distinct keys must have signed, at least 1. */
export interface Trust {
  readonly keys: TrustedKeys;
  readonly threshold: number;
}

/**
 * Loads `*.pub` and `*.revoked` (a public key in PEM each) of a folder. Never throws for what lies there: a bad `.pub` is left out and a
 * problem; while a `.revoked` can't be read no key is trusted, since nobody knows which one it revokes; other files are problems, hidden
 * files are ignored. A folder that is not there holds no key.
 */
export async function loadTrustedKeys(folder: string, signal: AbortSignal): Promise<TrustedKeys> {
  signal.throwIfAborted();
  const problems: KeyProblem[] = [];
  const names = await listFolder(folder, problems);
  const read = (suffix: string) => readKeys(folder, names, suffix, problems, signal);
  const published = await read('.pub');
  const revocations = names.filter((name) => name.endsWith('.revoked'));
  const revoked = await read('.revoked');
  for (const name of names.filter((other) => !/\.(pub|revoked)$/.test(other))) {
    problems.push({ file: name, message: `${join(folder, name)} is ignored: only *.pub and *.revoked are read here` });
  }
  const isBlind = revoked.length < revocations.length;
  return withRevision(folder, isBlind ? [] : keysInForce(published, revoked), problems);
}

/** A {@link TrustedKeys} of the given keys; equal keys count once, under the first name. */
function withRevision(folder: string, keys: readonly TrustedKey[], problems: readonly KeyProblem[]): TrustedKeys {
  const content = JSON.stringify([keys.map(({ name, keyId }) => [name, keyId]), problems]);
  return { folder, keys, problems, revision: createHash('sha256').update(content).digest('hex') };
}

function keysInForce(published: readonly TrustedKey[], revoked: readonly TrustedKey[]): TrustedKey[] {
  const out = new Set(revoked.map((key) => key.keyId));
  const kept = new Map<string, TrustedKey>();
  for (const key of published) if (!out.has(key.keyId) && !kept.has(key.keyId)) kept.set(key.keyId, key);
  return [...kept.values()];
}

async function listFolder(folder: string, problems: KeyProblem[]): Promise<string[]> {
  try {
    const names = (await readdir(folder)).filter((name) => !name.startsWith('.')).sort();
    if (names.length <= limits.keys) return names;
    problems.push({ file: folder, message: `${folder} holds more than ${limits.keys} files; none is read` });
  } catch (error) {
    if (systemCodeOf(error) !== 'ENOENT')
      problems.push({ file: folder, message: `${folder} can't be read: ${reasonOf(error)}` });
  }
  return [];
}

async function readKeys(
  folder: string,
  names: readonly string[],
  suffix: string,
  problems: KeyProblem[],
  signal: AbortSignal,
): Promise<TrustedKey[]> {
  const keys: TrustedKey[] = [];
  for (const file of names.filter((name) => name.endsWith(suffix))) {
    try {
      const pem = await readKeyFile(join(folder, file), signal);
      keys.push({ name: file.slice(0, -suffix.length), ...parsePublicKey(pem, join(folder, file)) });
    } catch (error) {
      signal.throwIfAborted();
      problems.push({ file, message: reasonOf(error) });
    }
  }
  return keys;
}

/** The text of a key file, at most 16 KiB. @throws AppError `bundle/key-file` (`reject`) */
export async function readKeyFile(path: string, signal: AbortSignal): Promise<string> {
  try {
    const found = await stat(path);
    if (!found.isFile() || found.size > limits.keyFileBytes) {
      throw bundleError('bundle/key-file', `key file ${path} is not a file of at most ${limits.keyFileBytes} bytes`);
    }
    return await readFile(path, { encoding: 'utf8', signal });
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof AppError || systemCodeOf(cause) === undefined) throw cause;
    throw bundleError('bundle/key-file', `key file ${path} can't be read: ${reasonOf(cause)}`, { cause });
  }
}
