import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { BundleId } from '../domain/digest.ts';
import type { KeyRotation } from '../domain/key-rotation.ts';
import { AppError, reasonOf, systemCodeOf } from '../platform/app-error.ts';
import { bundleError } from './bundle-error.ts';
import { type PublicKey, parsePublicKey, parseRevocations } from './keys.ts';
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
  /** Key ids that never count, sorted, each once. */
  readonly revoked: readonly string[];
  /** A `.revoked` file can't be read, so that nobody knows which key it means; `keys` is empty then. */
  readonly isBlind: boolean;
  readonly problems: readonly KeyProblem[];
  /** Another text whenever keys, names or problems are others; equal for the same. */
  readonly revision: string;
}

/** What a bundle is judged by. */
export interface Trust {
  readonly keys: TrustedKeys;
  /** How many distinct keys must have signed, at least 1. */
  readonly threshold: number;
  /**
   * Bundles that are trusted for their digest alone, whoever signed them: adopted ones (architecture, "Adoption"), and where approval is enough
   * those that were approved. Default none.
   */
  readonly vouched?: { has(bundleId: BundleId): boolean };
  /** What is not signed by enough trusted keys may still be approved by its digest (`trust.require = "approval"`). Default false. */
  readonly isApprovalEnough?: boolean;
}

/**
 * Loads `*.pub` (a public key in PEM each) and `*.revoked` (a public key in PEM, or key ids, see {@link parseRevocations}) of a folder. Never
 * throws for what lies there: a bad `.pub` is left out and a problem; while a `.revoked` can't be read no key is trusted, since nobody knows
 * which one it revokes; other files are problems, hidden files are ignored. A folder that is not there holds no key.
 */
export async function loadTrustedKeys(folder: string, signal: AbortSignal): Promise<TrustedKeys> {
  signal.throwIfAborted();
  const problems: KeyProblem[] = [];
  const names = await listFolder(folder, problems);
  const published = await readEach(folder, names, '.pub', problems, signal, (pem, path, file) => ({
    name: file.slice(0, -'.pub'.length),
    ...parsePublicKey(pem, path),
  }));
  const revocations = await readEach(folder, names, '.revoked', problems, signal, parseRevocations);
  for (const name of names.filter((other) => !/\.(pub|revoked)$/.test(other))) {
    problems.push({ file: name, message: `${join(folder, name)} is ignored: only *.pub and *.revoked are read here` });
  }
  const isBlind = revocations.length < names.filter((name) => name.endsWith('.revoked')).length;
  return keysInForce({ folder, published, revoked: revocations.flat(), isBlind, problems });
}

/** What {@link keysInForce} is made of. */
interface KeySet {
  readonly folder: string;
  readonly published: readonly TrustedKey[];
  readonly revoked: readonly string[];
  readonly isBlind: boolean;
  readonly problems: readonly KeyProblem[];
}

/** The keys that count: each published key once, under the first name, revoked ones left out; none while a revocation can't be read. */
function keysInForce({ folder, published, revoked, isBlind, problems }: KeySet): TrustedKeys {
  const out = new Set(revoked);
  const kept = new Map<string, TrustedKey>();
  for (const key of isBlind ? [] : published) if (!out.has(key.keyId) && !kept.has(key.keyId)) kept.set(key.keyId, key);
  const keys = [...kept.values()];
  const state = { keys, revoked: [...out].sort(), isBlind, problems };
  const content = JSON.stringify({ ...state, keys: keys.map(({ name, keyId }) => [name, keyId]) });
  return { folder, ...state, revision: createHash('sha256').update(content).digest('hex') };
}

/**
 * The keys of a folder together with those that came by rotation (bundle format, `trust`). Revocations of both sides add up and are final: a key
 * that either revokes does not count, whoever publishes it.
 */
export function withRotation(own: TrustedKeys, rotation: KeyRotation): TrustedKeys {
  const added = rotation.keys.map(({ keyId, pem }) => ({
    name: keyId.slice(0, 12),
    ...parsePublicKey(pem, `${keyId.slice(0, 12)} (by rotation)`),
  }));
  return keysInForce({
    ...own,
    published: [...own.keys, ...added],
    revoked: [...own.revoked, ...rotation.revoked.map(({ keyId }) => keyId)],
  });
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

async function readEach<T>(
  folder: string,
  names: readonly string[],
  suffix: string,
  problems: KeyProblem[],
  signal: AbortSignal,
  parse: (text: string, path: string, file: string) => T,
): Promise<T[]> {
  const read: T[] = [];
  for (const file of names.filter((name) => name.endsWith(suffix))) {
    const path = join(folder, file);
    try {
      read.push(parse(await readKeyFile(path, signal), path, file));
    } catch (error) {
      signal.throwIfAborted();
      problems.push({ file, message: reasonOf(error) });
    }
  }
  return read;
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
