import { type BundleId, hexOf } from '../../domain/model/digest.ts';
import { countsIn, type RevocationSource } from '../../domain/trust/revocation-record.ts';
import type { Role } from '../../domain/trust/role.ts';
import { digestOf } from '../../platform/digest.ts';
import type { PublicKey, RevokedId } from './keys.ts';
import type { KeyProblem } from './keys-folder.ts';

export interface TrustedKey extends PublicKey {
  /** The file's name, or its name in the bundle that brought it, else its short id. */
  readonly name: string;
  /** It is absent for a plain key, which may sign everything. */
  readonly role?: string;
}

export interface TrustedRole extends Role {
  /** Sorted by name, each once, without revoked ones; empty while a revocation may be hidden. */
  readonly keys: readonly TrustedKey[];
  readonly revokedIds: readonly string[];
}

export interface FolderRevocation extends RevokedId {
  readonly file: string;
}

export type ScopedRevocation = RevokedId & RevocationSource;

export interface TrustedKeys {
  readonly folder: string;
  /** Plain keys, sorted by name, each once, without revoked ones. */
  readonly keys: readonly TrustedKey[];
  /** Plain keys and keys of roles that would count if not revoked; each once. */
  readonly revokedKeys: readonly TrustedKey[];
  /** Sorted by name, without faulty ones. */
  readonly roles: readonly TrustedRole[];
  /** Ids of keys in two places. They count nowhere, even if a bundle adds them. */
  readonly ambiguous: ReadonlySet<string>;
  /** Ids of keys that are revoked somewhere, sorted, each once. A known key has its main id. */
  readonly revoked: readonly string[];
  /** {@link TrustedKeys.revoked} and the other ids of the same keys. */
  readonly revokedIds: ReadonlySet<string>;
  /** The {@link TrustedKeys.revokedIds} that never count among plain keys. */
  readonly plainRevokedIds: ReadonlySet<string>;
  /** All ids of each revoked key, by that in {@link TrustedKeys.revoked}. */
  readonly formsOf: ReadonlyMap<string, readonly string[]>;
  /** The revocations of the `*.revoked` files, in the order of names. */
  readonly byFile: readonly FolderRevocation[];
  readonly isListed: boolean;
  /** A revocation may be hidden: any key could be revoked, so no key counts. */
  readonly revocationsUnreadable: boolean;
  readonly problems: readonly KeyProblem[];
  /** Changes with keys, roles, names and problems. */
  readonly revision: string;
}

export interface Trust {
  readonly keys: TrustedKeys;
  /** Distinct plain keys that must have signed, at least 1. */
  readonly threshold: number;
  /** Trusted by digest (docs/decisions/trust.md): adopted and approved ones. Default none. */
  readonly vouched?: { has(bundleId: BundleId): boolean };
  /** An approval by digest is enough (`trust.require = "approval"`). Default false. */
  readonly isApprovalEnough?: boolean;
}

export interface KeySet extends Pick<TrustedKeys, 'folder' | 'byFile' | 'isListed' | 'problems' | 'ambiguous'> {
  /** Plain keys and keys of roles; the first name of a key counts. */
  readonly published: readonly TrustedKey[];
  readonly roles: readonly Role[];
  readonly revoked: readonly ScopedRevocation[];
}

/**
 * Each key once among the plain keys and once in its role, without ambiguous and revoked ones; none
 * while a revocation may be hidden.
 */
export function keysInForce({ published, roles, revoked, problems, ambiguous, ...others }: KeySet): TrustedKeys {
  const revocationsUnreadable = problems.some(({ hidesRevocations }) => hidesRevocations);
  const named = asKnown(revoked, published);
  const formsOf = new Map(named.map((one) => [one.keyId, idsOf(one)]));
  const revokedIn = (role: string | undefined) => new Set(named.filter((one) => countsIn(one, role)).flatMap(idsOf));
  const mayCount = published.filter(({ keyId }) => !ambiguous.has(keyId));
  const keysIn = (role: string | undefined, gone: ReadonlySet<string>) =>
    revocationsUnreadable ? [] : eachOnce(mayCount.filter((key) => key.role === role && !gone.has(key.keyId)));
  const plainRevokedIds = revokedIn(undefined);
  const state = {
    keys: keysIn(undefined, plainRevokedIds),
    roles: roles.map((role) => {
      const gone = revokedIn(role.name);
      return { ...role, keys: keysIn(role.name, gone), revokedIds: [...gone].sort() };
    }),
    revoked: [...formsOf.keys()].sort(),
    revokedKeys: eachOnce(mayCount.filter(({ keyId, role }) => revokedIn(role).has(keyId))),
    revocationsUnreadable,
    problems,
  };
  return {
    ...others,
    ...state,
    ambiguous,
    revokedIds: new Set([...formsOf.values()].flat()),
    plainRevokedIds,
    formsOf,
    revision: revisionOf(state, others.byFile),
  };
}

function eachOnce(keys: readonly TrustedKey[]): readonly TrustedKey[] {
  const kept = new Map<string, TrustedKey>();
  for (const key of keys) if (!kept.has(key.keyId)) kept.set(key.keyId, key);
  return [...kept.values()];
}

function revisionOf(
  state: Pick<TrustedKeys, 'keys' | 'roles' | 'revoked' | 'revokedKeys' | 'revocationsUnreadable' | 'problems'>,
  byFile: TrustedKeys['byFile'],
): string {
  const idOf = ({ name, keyId }: TrustedKey) => [name, keyId];
  const roles = state.roles.map((role) => ({ ...role, keys: role.keys.map(idOf) }));
  const [keys, revokedKeys] = [state.keys.map(idOf), state.revokedKeys.map(idOf)];
  return hexOf(digestOf(JSON.stringify({ ...state, byFile, keys, revokedKeys, roles })));
}

/** Turns revocations of another form of a known key's point into revocations of that key. */
export function asKnown<T extends RevokedId>(revoked: readonly T[], known: readonly PublicKey[]): readonly T[] {
  const byId = new Map(known.flatMap((key) => idsOf(key).map((id) => [id, key] as const)));
  return revoked.map((one) => {
    const key = byId.get(one.keyId);
    return key === undefined ? one : { ...one, keyId: key.keyId, otherIds: key.otherIds };
  });
}

function idsOf({ keyId, otherIds = [] }: RevokedId): readonly string[] {
  return [keyId, ...otherIds];
}
