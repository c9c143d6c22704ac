import { type BundleId, hexOf } from '../../domain/model/digest.ts';
import { countsIn, type RevocationSource } from '../../domain/trust/revocation-record.ts';
import type { Role } from '../../domain/trust/role.ts';
import { digestOf } from '../../platform/digest.ts';
import type { PublicKey, RevokedId } from './keys.ts';
import type { KeyProblem } from './keys-folder.ts';

/** A public key that is trusted under a name. */
export interface TrustedKey extends PublicKey {
  /**
   * Its file's name without `.pub`, or what the bundle that brought it calls it, else its short key
   * id. For a key of a role it comes after `<role>/`.
   */
  readonly name: string;
  /** The role in which it counts; absent for a plain key, which may sign everything. */
  readonly role?: string;
}

/** A role in force, with the keys that count in it. */
export interface TrustedRole extends Role {
  /**
   * Sorted by name, each key once, without revoked ones; empty while a revocation may be hidden.
   */
  readonly keys: readonly TrustedKey[];
  /** All ids of the keys that never count in it. */
  readonly revokedIds: readonly string[];
}

/** A key that a file of the folder revokes. */
export interface FolderRevocation extends RevokedId {
  readonly file: string;
}

/** A revocation, and where it applies. */
export type ScopedRevocation = RevokedId & RevocationSource;

/** The keys of one folder. */
export interface TrustedKeys {
  readonly folder: string;
  /** Plain keys, sorted by name, each key once, revoked ones left out. */
  readonly keys: readonly TrustedKey[];
  /** Plain keys and keys of roles that would count there, were they not revoked; each once. */
  readonly revokedKeys: readonly TrustedKey[];
  /** Sorted by name, without roles whose file has a fault. */
  readonly roles: readonly TrustedRole[];
  /**
   * Ids of keys that are in a role and in a `*.pub` file, or in two roles. They count nowhere, even
   * if a bundle adds them.
   */
  readonly ambiguous: ReadonlySet<string>;
  /**
   * Key ids that never count among the plain keys or in some role, sorted, each once. A key that is
   * known has its own id here, whatever form the revocation named.
   */
  readonly revoked: readonly string[];
  /** {@link TrustedKeys.revoked} and the other ids of the same keys. */
  readonly revokedIds: ReadonlySet<string>;
  /** Those of {@link TrustedKeys.revokedIds} that never count among the plain keys. */
  readonly plainRevokedIds: ReadonlySet<string>;
  /** All ids of each revoked key, by the one that is in {@link TrustedKeys.revoked}. */
  readonly formsOf: ReadonlyMap<string, readonly string[]>;
  /** The revocations of the folder's `*.revoked` files, in the order of their names. */
  readonly byFile: readonly FolderRevocation[];
  /** The folder exists and was listed. */
  readonly isListed: boolean;
  /** A revocation may be hidden, and any key could be the revoked one, so no key counts. */
  readonly revocationsUnreadable: boolean;
  readonly problems: readonly KeyProblem[];
  /** A fingerprint: it changes whenever keys, roles, names or problems change. */
  readonly revision: string;
}

/** The keys and rules by which a bundle is judged. */
export interface Trust {
  readonly keys: TrustedKeys;
  /** How many distinct plain keys must have signed, at least 1. */
  readonly threshold: number;
  /**
   * Bundles that are trusted by digest, whoever signed them: adopted ones
   * (docs/decisions/trust.md), and approved ones if approval is enough. Default none.
   */
  readonly vouched?: { has(bundleId: BundleId): boolean };
  /**
   * A bundle without enough trusted signatures may still be approved by its digest (`trust.require
   * = "approval"`). Default false.
   */
  readonly isApprovalEnough?: boolean;
}

/** The input of {@link keysInForce}. */
export interface KeySet extends Pick<TrustedKeys, 'folder' | 'byFile' | 'isListed' | 'problems' | 'ambiguous'> {
  /** Plain keys and keys of roles; the first name of a key is used. */
  readonly published: readonly TrustedKey[];
  readonly roles: readonly Role[];
  readonly revoked: readonly ScopedRevocation[];
}

/**
 * The keys that count: each published key once among the plain keys and once in its role, under the
 * first name, ambiguous and revoked ones left out; none while a revocation may be hidden.
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

/** The first of those with the same id. */
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

/** Revocations that name another form of a known key's point, as revocations of that key. */
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
