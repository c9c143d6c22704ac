import { bundleName, type VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { TrustRequirement } from './approval.ts';

/** By what bundles are judged now. */
export interface TrustInForce {
  readonly require: TrustRequirement;
  /** How many distinct keys must have signed, at least 1. */
  readonly threshold: number;
  /**
   * Keys that count, sorted by name. `broughtBy`: the bundle that rotated it in; absent for a key
   * of `trust.keys_dir`.
   */
  readonly keys: readonly { readonly name: string; readonly keyId: string; readonly broughtBy?: BundleId }[];
  /**
   * Keys that never count. `file`: the `*.revoked` file that names it; `revokedBy`: the bundle that
   * revoked it, where no file does. Neither: a file did that is gone.
   */
  readonly revoked: readonly { readonly keyId: string; readonly revokedBy?: BundleId; readonly file?: string }[];
  /** Files of `trust.keys_dir` that could not be used, a sentence each that names the file. */
  readonly problems: readonly string[];
  /** Revocations can't be read, so that no key counts. */
  readonly revocationsUnreadable: boolean;
  /** Why they can't, and what to do, without full stop; absent when they can. */
  readonly cause?: string;
}

/**
 * {@link TrustInForce} for programs: bundles are named as `ocp@4.13.7`, or by their digest where
 * they are not known here.
 */
export interface TrustReport {
  readonly require: string;
  readonly threshold: number;
  readonly keys: readonly { readonly name: string; readonly keyId: string; readonly broughtBy?: string }[];
  readonly revoked: readonly { readonly keyId: string; readonly revokedBy?: string; readonly file?: string }[];
  readonly problems: readonly string[];
  readonly revocationsUnreadable: boolean;
  readonly cause?: string;
}

/** Makes the report; `bundles` are those that are adopted. */
export function trustReport(trust: TrustInForce, bundles: readonly VerifiedBundle[]): TrustReport {
  const names = new Map(bundles.map(({ bundleId, payload }) => [bundleId, bundleName(payload)]));
  const nameOf = (bundleId: BundleId) => names.get(bundleId) ?? bundleId;
  return {
    ...trust,
    keys: trust.keys.map(({ name, keyId, broughtBy }) => ({
      name,
      keyId,
      ...(broughtBy !== undefined && { broughtBy: nameOf(broughtBy) }),
    })),
    revoked: trust.revoked.map(({ keyId, revokedBy, file }) => ({
      keyId,
      ...(file !== undefined && { file }),
      ...(revokedBy !== undefined && { revokedBy: nameOf(revokedBy) }),
    })),
  };
}
