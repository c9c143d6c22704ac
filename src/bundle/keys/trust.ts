import { basename, join } from 'node:path';
import { reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { parsePublicKey, parseRevocations } from './keys.ts';
import {
  isDiskFault,
  type KeyProblem,
  type KeysFolderRules,
  listKeysFolder,
  privateKeyFiles,
  readGuardedKeyFile,
  strayFiles,
} from './keys-folder.ts';
import { loadRoles } from './roles.ts';
import { asKnown, keysInForce, type TrustedKeys } from './trusted-keys.ts';

export { readKeyFile } from './keys-folder.ts';
export type { Trust, TrustedKey, TrustedKeys } from './trusted-keys.ts';

/**
 * Loads `*.pub`, `*.revoked` ({@link parseRevocations}) and `*.toml` ({@link loadRoles}). Never
 * throws for the content: a bad `.pub` or role is left out and reported. While the folder or a
 * `.revoked` file can't be read, no key is trusted, since any key may be revoked. A folder that
 * never existed contains no key.
 */
export async function loadTrustedKeys(
  folder: string,
  signal: AbortSignal,
  rules: KeysFolderRules = {},
): Promise<TrustedKeys> {
  signal.throwIfAborted();
  const { names, problems: listing, isListed } = await listKeysFolder(folder, rules);
  const privateKeys = await privateKeyFiles(folder, names, signal);
  const exposed = new Set(privateKeys.map(({ file }) => file));
  const others = names.filter((name) => !exposed.has(name));
  const read = { folder, names: others, ownUid: rules.ownUid, signal, problems: [...listing, ...privateKeys] };
  const published = await readEach(read, '.pub', (text, path, file) => {
    const key = parsePublicKey(text, path);
    return [{ name: oneLine(file.slice(0, -'.pub'.length)) || key.keyId.slice(0, 12), ...key }];
  });
  const named = await readEach(read, '.revoked', (text, path, file) =>
    parseRevocations(text, path).map((revoked) => ({ ...revoked, file })),
  );
  const { roles, keys, ambiguous, ...loaded } = await loadRoles({ ...read, names, exposed, plain: published }, signal);
  const byFile = asKnown(named, [...published, ...keys]);
  const problems = [...read.problems, ...loaded.problems, ...strayFiles(folder, others, loaded.keyFiles)];
  const all = [...published, ...keys];
  return keysInForce({ folder, published: all, roles, ambiguous, revoked: byFile, byFile, isListed, problems });
}

/**
 * Loads one key that is trusted for everything. Nothing revokes it.
 * @throws AppError `bundle/key-file` (`reject`)
 */
export async function loadTrustedKey(file: string, signal: AbortSignal): Promise<TrustedKeys> {
  const key = parsePublicKey((await readGuardedKeyFile(file, undefined, signal)).text, file);
  const name = oneLine(basename(file).replace(/\.pub$/, '')) || key.keyId.slice(0, 12);
  const nothing = { roles: [], revoked: [], byFile: [], problems: [], ambiguous: new Set<string>() };
  return keysInForce({ ...nothing, folder: file, isListed: true, published: [{ name, ...key }] });
}

interface FolderReading {
  readonly folder: string;
  readonly names: readonly string[];
  readonly ownUid: number | undefined;
  readonly signal: AbortSignal;
  readonly problems: KeyProblem[];
}

async function readEach<T>(
  { folder, names, ownUid, signal, problems }: FolderReading,
  suffix: '.pub' | '.revoked',
  parse: (text: string, path: string, file: string) => readonly T[],
): Promise<T[]> {
  const read: T[] = [];
  for (const file of names.filter((name) => name.endsWith(suffix))) {
    const path = join(folder, file);
    try {
      const { text, fault } = await readGuardedKeyFile(path, ownUid, signal);
      if (fault !== undefined) problems.push({ ...fault, file });
      read.push(...parse(text, path, file));
    } catch (error) {
      signal.throwIfAborted();
      const hidesRevocations = suffix === '.revoked' || isDiskFault(error);
      problems.push({ file, message: reasonOf(error), remedy: 'repair the file or move it away', hidesRevocations });
    }
  }
  return read;
}
