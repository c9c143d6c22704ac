import type { BundleId } from '../model/digest.ts';
import type { RevokedKey } from './approval.ts';

/** A revocation that was seen once: by a `*.revoked` file, by a person or by a bundle. */
export interface StoredRevocation {
  /** Lower-case hex SHA-256 of the DER SubjectPublicKeyInfo. */
  readonly keyId: string;
  /** Hashes of other forms of the same key. */
  readonly otherIds: readonly string[];
  /** The bundle that revoked it; absent for one of the administrator, which counts everywhere. */
  readonly bundleId?: BundleId;
  /** The role in which the bundle revoked it; absent: among the plain keys. */
  readonly role?: string;
  /** `stickpin trust revoke` did; default false. */
  readonly byPerson?: true;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** When the administrator lifted it; absent while it holds. */
  readonly restoredAt?: number;
}

/**
 * What a node remembers of revocations, so that they outlast the files and bundles that brought
 * them.
 */
export interface RevocationRecord {
  /** Folders of keys that were listed once. */
  readonly folders: readonly string[];
  /** One for each key and file, for each key and person, and for each key and bundle. */
  readonly revocations: readonly StoredRevocation[];
}

/** A key that is said to be revoked now. */
export interface SeenRevocation {
  readonly keyId: string;
  readonly otherIds?: readonly string[];
  /** These as in {@link StoredRevocation}. */
  readonly bundleId?: BundleId;
  readonly role?: string;
  readonly byPerson?: true;
  /** A restore of the key after this time holds. */
  readonly remadeAt?: RevokedKey['remadeAt'];
}

/** Nothing was seen yet. */
export const EMPTY_RECORD: RevocationRecord = { folders: [], revocations: [] };

/**
 * Two copies of the record as one. They differ after a crash or when one is older: what either
 * still holds as revoked is revoked.
 */
export function mergeRecords(one: RevocationRecord, other: RevocationRecord): RevocationRecord {
  const merged = new Map(one.revocations.map((entry) => [entryKey(entry), entry]));
  for (const entry of other.revocations) {
    const known = merged.get(entryKey(entry));
    merged.set(entryKey(entry), known === undefined ? entry : stricter(known, entry));
  }
  return { folders: union(one.folders, other.folders), revocations: [...merged.values()] };
}

/** The record with a folder that was listed. Gives the same object when it says so already. */
export function withFolder(record: RevocationRecord, folder: string): RevocationRecord {
  return record.folders.includes(folder) ? record : { ...record, folders: [...record.folders, folder] };
}

/**
 * The record with revocations that are there now. One of a file or of a person holds again although
 * it was lifted before, since the administrator wants it; one of a bundle stays lifted, since the
 * same bundle says nothing new. Gives the same object when nothing is new.
 */
export function withSeen(record: RevocationRecord, seen: readonly SeenRevocation[], at: number): RevocationRecord {
  const entries = new Map(record.revocations.map((entry) => [entryKey(entry), entry]));
  let isNew = false;
  for (const { keyId, otherIds = [], bundleId, role, byPerson, remadeAt } of seen) {
    const key = entryKey({ keyId, bundleId, byPerson });
    const known = entries.get(key);
    const isLifted = known?.restoredAt !== undefined && bundleId === undefined;
    const ids = union(known?.otherIds ?? [], otherIds);
    if (known !== undefined && !isLifted && ids.length === known.otherIds.length) continue;
    isNew = true;
    const keptAt = known === undefined || isLifted ? at : known.at;
    const restoredAt =
      known === undefined ? restoredSince(record, [keyId, ...ids], remadeAt) : isLifted ? undefined : known.restoredAt;
    entries.set(key, {
      keyId,
      otherIds: ids,
      at: keptAt,
      ...(bundleId !== undefined && { bundleId }),
      ...(role !== undefined && { role }),
      ...(byPerson && { byPerson }),
      ...(restoredAt !== undefined && { restoredAt }),
    });
  }
  return isNew ? { ...record, revocations: [...entries.values()] } : record;
}

/** When a person restored a key last, if that was after `since`; undefined without `since`. */
function restoredSince(
  { revocations }: RevocationRecord,
  ids: readonly string[],
  since: number | undefined,
): number | undefined {
  if (since === undefined) return undefined;
  const times = revocations.filter((entry) => isOf(entry, ids)).map(({ restoredAt = 0 }) => restoredAt);
  const last = Math.max(0, ...times);
  return last > since ? last : undefined;
}

/**
 * The record with every revocation of a key lifted, by whichever of its ids it was named. A bundle
 * that revokes it later, or a file, revokes it again.
 */
export function withRestored(record: RevocationRecord, ids: readonly string[], at: number): RevocationRecord {
  const revocations = record.revocations.map((entry) =>
    isOf(entry, ids) && entry.restoredAt === undefined ? { ...entry, restoredAt: at } : entry,
  );
  return { ...record, revocations };
}

/** The revocations that hold. */
export function revocationsInForce({ revocations }: RevocationRecord): readonly StoredRevocation[] {
  return revocations.filter(({ restoredAt }) => restoredAt === undefined);
}

/** Who revoked a key, as {@link revokerOf} says it; nothing: the administrator, with a file. */
export interface Revoker {
  readonly byPerson?: true;
  readonly revokedBy?: BundleId;
  /** As in {@link StoredRevocation}. */
  readonly role?: string;
}

/** Who revoked a key, of all revocations of it that hold: a person before a bundle. */
export function revokerOf(known: readonly StoredRevocation[]): Revoker {
  if (known.some(({ byPerson }) => byPerson)) return { byPerson: true };
  const by = known.find(({ bundleId }) => bundleId !== undefined);
  // What a bundle revoked counts in one place only, unless the administrator revoked it too.
  const isEverywhere = known.some(({ bundleId }) => bundleId === undefined);
  return {
    ...(by?.bundleId !== undefined && { revokedBy: by.bundleId }),
    ...(!isEverywhere && by?.role !== undefined && { role: by.role }),
  };
}

function isOf({ keyId, otherIds }: StoredRevocation, ids: readonly string[]): boolean {
  return ids.includes(keyId) || otherIds.some((id) => ids.includes(id));
}

/** Whether a revocation counts among the plain keys (`role` undefined), or in a role. */
export function countsIn({ bundleId, role: own }: RevocationSource, role: string | undefined): boolean {
  return bundleId === undefined || own === role;
}

/** Who revoked a key: a bundle, in a role or among the plain keys; otherwise the administrator. */
export type RevocationSource = Pick<StoredRevocation, 'bundleId' | 'role'>;

interface EntryName {
  readonly keyId: string;
  readonly bundleId?: BundleId | undefined;
  readonly byPerson?: true | undefined;
}

/** A bundle names one role, so that its digest tells the role too. */
function entryKey({ keyId, bundleId, byPerson }: EntryName): string {
  return `${keyId} ${bundleId ?? (byPerson ? 'person' : '')}`;
}

function stricter(one: StoredRevocation, other: StoredRevocation): StoredRevocation {
  const { restoredAt: first, ...entry } = one;
  const isRestored = first !== undefined && other.restoredAt !== undefined;
  return {
    ...entry,
    otherIds: union(one.otherIds, other.otherIds),
    at: Math.min(one.at, other.at),
    ...(isRestored && { restoredAt: Math.max(first, other.restoredAt ?? first) }),
  };
}

function union(one: readonly string[], other: readonly string[]): readonly string[] {
  return [...new Set([...one, ...other])];
}
