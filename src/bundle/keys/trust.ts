import { join } from 'node:path';
import { type BundleId, hexOf } from '../../domain/model/digest.ts';
import type { RotatedKey } from '../../domain/trust/key-rotation.ts';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { oneLine } from '../../platform/plain-text.ts';
import { type PublicKey, parsePublicKey, parseRevocations, type RevokedId } from './keys.ts';
import {
  type KeyProblem,
  type KeysFolderRules,
  listKeysFolder,
  readGuardedKeyFile,
  strayFiles,
} from './keys-folder.ts';

export { readKeyFile } from './keys-folder.ts';

/** A public key that is trusted under a name: its file's name without `.pub`. */
export interface TrustedKey extends PublicKey {
  readonly name: string;
}

/** A key that a file of the folder revokes. */
export interface FolderRevocation extends RevokedId {
  readonly file: string;
}

/** The keys of one folder. */
export interface TrustedKeys {
  readonly folder: string;
  /** Sorted by name, each key once, revoked ones left out. */
  readonly keys: readonly TrustedKey[];
  /**
   * Key ids that never count, sorted, each once. A key that is known has its own id here, whatever
   * form the revocation named.
   */
  readonly revoked: readonly string[];
  /** {@link TrustedKeys.revoked} and the other ids of the same keys. */
  readonly revokedIds: ReadonlySet<string>;
  /** All ids of each revoked key, by the one that is in {@link TrustedKeys.revoked}. */
  readonly formsOf: ReadonlyMap<string, readonly string[]>;
  /** What the `*.revoked` files of the folder say, in the order of their names. */
  readonly byFile: readonly FolderRevocation[];
  /** The folder is there and was listed. */
  readonly isListed: boolean;
  /** A revocation may be hidden, so that nobody knows which key it means; `keys` is empty then. */
  readonly revocationsUnreadable: boolean;
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
   * Bundles that are trusted for their digest alone, whoever signed them: adopted ones
   * (docs/decisions/trust.md), and where approval is enough those that were approved. Default
   * none.
   */
  readonly vouched?: { has(bundleId: BundleId): boolean };
  /**
   * What is not signed by enough trusted keys may still be approved by its digest (`trust.require =
   * "approval"`). Default false.
   */
  readonly isApprovalEnough?: boolean;
}

/**
 * Loads `*.pub` (a public key in PEM each) and `*.revoked` (public keys in PEM and key ids, see
 * {@link parseRevocations}) of a folder. Never throws for what lies there: a bad `.pub` is left out
 * and a problem. While the folder or a `.revoked` can't be read no key is trusted, since nobody
 * knows which one is revoked; other files are problems, hidden files are ignored. A folder that is
 * not there and never was holds no key.
 */
export async function loadTrustedKeys(
  folder: string,
  signal: AbortSignal,
  rules: KeysFolderRules = {},
): Promise<TrustedKeys> {
  signal.throwIfAborted();
  const { names, problems: listing, isListed } = await listKeysFolder(folder, rules);
  const read = { folder, names, ownUid: rules.ownUid, signal, problems: [...listing] };
  const published = await readEach(read, '.pub', (text, path, file) => {
    const key = parsePublicKey(text, path);
    return [{ name: oneLine(file.slice(0, -'.pub'.length)) || key.keyId.slice(0, 12), ...key }];
  });
  const named = await readEach(read, '.revoked', (text, path, file) =>
    parseRevocations(text, path).map((revoked) => ({ ...revoked, file })),
  );
  const byFile = asKnown(named, published);
  const problems = [...read.problems, ...strayFiles(folder, names)];
  return keysInForce({ folder, published, revoked: byFile, byFile, isListed, problems });
}

/** What {@link keysInForce} is made of. */
interface KeySet extends Pick<TrustedKeys, 'folder' | 'byFile' | 'isListed' | 'problems'> {
  readonly published: readonly TrustedKey[];
  readonly revoked: readonly RevokedId[];
}

/**
 * The keys that count: each published key once, under the first name, revoked ones left out; none
 * while a revocation may be hidden.
 */
function keysInForce({ published, revoked, problems, ...others }: KeySet): TrustedKeys {
  const revocationsUnreadable = problems.some(({ hidesRevocations }) => hidesRevocations);
  const formsOf = new Map(asKnown(revoked, published).map((one) => [one.keyId, idsOf(one)]));
  const revokedIds = new Set([...formsOf.values()].flat());
  const kept = new Map<string, TrustedKey>();
  for (const key of revocationsUnreadable ? [] : published) {
    if (!revokedIds.has(key.keyId) && !kept.has(key.keyId)) kept.set(key.keyId, key);
  }
  const keys = [...kept.values()];
  const state = { keys, revoked: [...formsOf.keys()].sort(), revocationsUnreadable, problems };
  const content = JSON.stringify({
    ...state,
    byFile: others.byFile,
    keys: keys.map(({ name, keyId }) => [name, keyId]),
  });
  return { ...others, ...state, revokedIds, formsOf, revision: hexOf(digestOf(content)) };
}

/** Revocations that name another form of a known key's point, as revocations of that key. */
function asKnown<T extends RevokedId>(revoked: readonly T[], known: readonly PublicKey[]): readonly T[] {
  const byId = new Map(known.flatMap((key) => idsOf(key).map((id) => [id, key] as const)));
  return revoked.map((one) => {
    const key = byId.get(one.keyId);
    return key === undefined ? one : { ...one, keyId: key.keyId, otherIds: key.otherIds };
  });
}

function idsOf({ keyId, otherIds = [] }: RevokedId): readonly string[] {
  return [keyId, ...otherIds];
}

/**
 * The keys of a folder together with those that came by rotation (bundle format, `trust`) and with
 * revocations from elsewhere: by rotation, and those that files named which are gone. Revocations
 * add up: a key that any of them revokes does not count, whoever publishes it.
 */
export function withRotation(
  own: TrustedKeys,
  rotation: {
    readonly keys: readonly RotatedKey[];
    readonly revoked: readonly RevokedId[];
    /** What keeps earlier revocations from being known. Default none. */
    readonly problems?: readonly KeyProblem[];
  },
): TrustedKeys {
  const problems = [...own.problems, ...(rotation.problems ?? [])];
  const added = rotation.keys.flatMap(({ keyId, pem }) => {
    const name = keyId.slice(0, 12);
    try {
      return [{ name, ...parsePublicKey(pem, `${name} (by rotation)`) }];
    } catch (error) {
      const remedy = 'have the factory bring another key';
      problems.push({ file: name, message: reasonOf(error), remedy, hidesRevocations: false });
      return [];
    }
  });
  return keysInForce({
    ...own,
    problems,
    published: [...own.keys, ...added],
    revoked: [...own.byFile, ...rotation.revoked],
  });
}

/** What {@link readEach} reads; it adds to `problems`. */
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
      problems.push({ file, message: reasonOf(error), remedy: 'mend the file or move it away', hidesRevocations });
    }
  }
  return read;
}

/**
 * A file that is there and that the system does not give: what else it does not give is unknown. A
 * link that leads nowhere is as no file.
 */
function isDiskFault(error: unknown): boolean {
  const code = systemCodeOf(error instanceof Error ? error.cause : undefined);
  return code !== undefined && code !== 'ENOENT' && code !== 'ELOOP';
}
