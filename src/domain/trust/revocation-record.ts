import { defined } from '../../platform/defined.ts';
import type { BundleId } from '../model/digest.ts';

/** A `*.revoked` file, a person or a bundle revoked the key. */
export interface StoredRevocation {
  /** Lower-case hex SHA-256 of the DER SubjectPublicKeyInfo. */
  readonly keyId: string;
  /** Hashes of other forms of the same key. */
  readonly otherIds: readonly string[];
  /** Absent for a revocation of the administrator, which counts everywhere. */
  readonly bundleId?: BundleId;
  /** Absent means among the plain keys. */
  readonly role?: string;
  /** `stickpin trust revoke` made it. */
  readonly byPerson?: true;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly restoredAt?: number;
}

/** Revocations outlast the files and bundles that brought them. */
export interface RevocationRecord {
  /** Folders of keys that were once listed. */
  readonly folders: readonly string[];
  /** One entry for each key and file, each key and person, and each key and bundle. */
  readonly revocations: readonly StoredRevocation[];
}

export interface SeenRevocation {
  readonly keyId: string;
  readonly otherIds?: readonly string[];
  readonly bundleId?: BundleId;
  readonly role?: string;
  readonly byPerson?: true;
}

export const EMPTY_RECORD: RevocationRecord = { folders: [], revocations: [] };

/** Copies may differ after a crash. A key that either copy revokes is revoked. */
export function mergeRecords(one: RevocationRecord, other: RevocationRecord): RevocationRecord {
  const merged = new Map(one.revocations.map((entry) => [entryKey(entry), entry]));
  for (const entry of other.revocations) {
    const known = merged.get(entryKey(entry));
    merged.set(entryKey(entry), known === undefined ? entry : stricter(known, entry));
  }
  return { folders: union(one.folders, other.folders), revocations: [...merged.values()] };
}

/** @returns the same object when it already has the folder */
export function withFolder(record: RevocationRecord, folder: string): RevocationRecord {
  return record.folders.includes(folder) ? record : { ...record, folders: [...record.folders, folder] };
}

/**
 * Adds present revocations. A file or a person revokes a key again although it was lifted, since
 * the administrator wants it. A bundle does not. Returns the same object when nothing is new.
 */
export function withSeen(record: RevocationRecord, seen: readonly SeenRevocation[], at: number): RevocationRecord {
  const entries = new Map(record.revocations.map((entry) => [entryKey(entry), entry]));
  let isNew = false;
  for (const { keyId, otherIds = [], bundleId, role, byPerson } of seen) {
    const key = entryKey({ keyId, bundleId, byPerson });
    const known = entries.get(key);
    const isLifted = known?.restoredAt !== undefined && bundleId === undefined;
    const ids = union(known?.otherIds ?? [], otherIds);
    if (known !== undefined && !isLifted && ids.length === known.otherIds.length) continue;
    isNew = true;
    const keptAt = known === undefined || isLifted ? at : known.at;
    const restoredAt = isLifted ? undefined : known?.restoredAt;
    entries.set(key, defined({ keyId, otherIds: ids, at: keptAt, bundleId, role, byPerson, restoredAt }));
  }
  return isNew ? { ...record, revocations: [...entries.values()] } : record;
}

/** Lifts every revocation of a key, by any of its ids. A later one revokes it again. */
export function withRestored(record: RevocationRecord, ids: readonly string[], at: number): RevocationRecord {
  const revocations = record.revocations.map((entry) =>
    isOf(entry, ids) && entry.restoredAt === undefined ? { ...entry, restoredAt: at } : entry,
  );
  return { ...record, revocations };
}

export function revocationsInForce({ revocations }: RevocationRecord): readonly StoredRevocation[] {
  return revocations.filter(({ restoredAt }) => restoredAt === undefined);
}

/** See {@link revokerOf}. An empty one is the administrator with a file. */
export interface Revoker {
  readonly byPerson?: true;
  readonly revokedBy?: BundleId;
  readonly role?: string;
}

/** Considers all revocations of the key in force. A person comes before a bundle. */
export function revokerOf(known: readonly StoredRevocation[]): Revoker {
  if (known.some(({ byPerson }) => byPerson)) return { byPerson: true };
  const by = known.find(({ bundleId }) => bundleId !== undefined);
  // A bundle's revocation counts in one place only, unless the administrator revoked the key too.
  const isEverywhere = known.some(({ bundleId }) => bundleId === undefined);
  return defined({ revokedBy: by?.bundleId, role: isEverywhere ? undefined : by?.role });
}

function isOf({ keyId, otherIds }: StoredRevocation, ids: readonly string[]): boolean {
  return ids.includes(keyId) || otherIds.some((id) => ids.includes(id));
}

export function countsIn({ bundleId, role: sourceRole }: RevocationSource, role: string | undefined): boolean {
  return bundleId === undefined || sourceRole === role;
}

export type RevocationSource = Pick<StoredRevocation, 'bundleId' | 'role'>;

interface EntryName {
  readonly keyId: string;
  readonly bundleId?: BundleId | undefined;
  readonly byPerson?: true | undefined;
}

/** A bundle names one role, so its digest implies the role. */
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
