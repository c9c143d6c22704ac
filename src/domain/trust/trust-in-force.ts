import { bundleName, type VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { TrustRequirement } from './approval.ts';
import type { Role } from './role.ts';

/** A key that counts. */
export interface ShownKey {
  readonly name: string;
  readonly keyId: string;
  /** As in {@link TrustInForce.keys}. */
  readonly broughtBy?: BundleId;
}

/** A role in force, with the keys that count in it, sorted by name. */
export interface ShownRole extends Omit<Role, 'keyIds'> {
  readonly keys: readonly ShownKey[];
}

/**
 * A key that never counts. `file`: the `*.revoked` file that names it. `byPerson`: `stickpin trust
 * revoke` did. `revokedBy`: the bundle that revoked it, where neither did, and `role` in which it
 * counts no more (absent: among the plain keys). None of them: a file did that is gone.
 */
interface RevokedKey<Bundle> {
  readonly keyId: string;
  readonly revokedBy?: Bundle;
  readonly role?: string;
  readonly file?: string;
  readonly byPerson?: true;
}

/** By what bundles are judged now. */
export interface TrustInForce {
  readonly require: TrustRequirement;
  /** How many distinct keys must have signed, at least 1. */
  readonly threshold: number;
  /**
   * Keys that count, sorted by name. `broughtBy`: the bundle that rotated it in; absent for a key
   * of `trust.keys_dir`.
   */
  readonly keys: readonly ShownKey[];
  /** Keys that count in a role only, and what they may sign; sorted by name. Default none. */
  readonly roles?: readonly ShownRole[];
  readonly revoked: readonly RevokedKey<BundleId>[];
  /** Files of `trust.keys_dir` that could not be used, a sentence each that names the file. */
  readonly problems: readonly string[];
  /** Revocations can't be read, so that no key counts. */
  readonly revocationsUnreadable: boolean;
  /** Why they can't, and what to do, without full stop; absent when they can. */
  readonly cause?: string;
  /**
   * What STATUS says of keys while nothing else is to do, without full stop: a private key lies
   * among them, or no key is trusted. Absent when all is well.
   */
  readonly alarm?: string;
}

/**
 * {@link TrustInForce} for programs: bundles are named as `ocp@4.13.7`, or by their digest where
 * they are not known here.
 */
export interface TrustReport {
  readonly require: string;
  readonly threshold: number;
  readonly keys: readonly ReportedKey[];
  readonly roles?: readonly (Omit<Role, 'keyIds'> & { readonly keys: readonly ReportedKey[] })[];
  readonly revoked: readonly RevokedKey<string>[];
  readonly problems: readonly string[];
  readonly revocationsUnreadable: boolean;
  readonly cause?: string;
}

/** A key that counts, for programs. */
export interface ReportedKey {
  readonly name: string;
  readonly keyId: string;
  readonly broughtBy?: string;
}

/** Makes the report; `bundles` are those that are adopted. */
export function trustReport(trust: TrustInForce, bundles: readonly VerifiedBundle[]): TrustReport {
  const names = new Map(bundles.map(({ bundleId, payload }) => [bundleId, bundleName(payload)]));
  const nameOf = (bundleId: BundleId) => names.get(bundleId) ?? bundleId;
  const reported = ({ name, keyId, broughtBy }: ShownKey): ReportedKey => ({
    name,
    keyId,
    ...(broughtBy !== undefined && { broughtBy: nameOf(broughtBy) }),
  });
  const { alarm: _, ...others } = trust;
  return {
    ...others,
    keys: trust.keys.map(reported),
    ...(trust.roles !== undefined && {
      roles: trust.roles.map((role) => ({ ...role, keys: role.keys.map(reported) })),
    }),
    revoked: trust.revoked.map(({ revokedBy, ...others }) => ({
      ...others,
      ...(revokedBy !== undefined && { revokedBy: nameOf(revokedBy) }),
    })),
  };
}
