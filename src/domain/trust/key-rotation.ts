import type { Payload, VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';

/** A key that came into force with a bundle (bundle format, `trust.keys`). */
export interface RotatedKey {
  /** Lower-case hex SHA-256 of the DER SubjectPublicKeyInfo. */
  readonly keyId: string;
  readonly pem: string;
  /** The bundle that brought it. */
  readonly bundleId: BundleId;
}

/**
 * A key that a bundle took out of force (bundle format, `trust.revoked`). Only an administrator
 * brings it back.
 */
export interface RevokedKey {
  readonly keyId: string;
  readonly bundleId: BundleId;
}

/** All that came by rotation, in the order of adoption. Kept when the bundles are gone. */
export interface KeyRotation {
  readonly keys: readonly RotatedKey[];
  readonly revoked: readonly RevokedKey[];
}

/** What is known of revocations in one round. */
export interface Revocations {
  /**
   * Key ids that never count: of the administrator's `*.revoked` files, now or earlier, and of
   * bundles that rotated keys.
   */
  readonly keyIds: readonly string[];
  /** Revocations can't be read, so that nobody knows which keys are meant. */
  readonly revocationsUnreadable: boolean;
  /** Why they can't, and what to do, without full stop; absent when they can. */
  readonly cause?: string;
}

/** Nothing came by rotation. */
export const NO_ROTATION: KeyRotation = { keys: [], revoked: [] };

/**
 * Bundle format, `trust`: "takes effect when the envelope meets the present threshold". A bundle
 * that is trusted because its digest was approved changes no key. The threshold is that of
 * `trust.threshold`, at least 1.
 */
export function rotatesKeys({ payload, signerKeyIds }: VerifiedBundle, threshold: number): boolean {
  return hasRotation(payload) && (signerKeyIds?.length ?? 0) >= threshold;
}

/** Whether a payload asks for a change of keys. */
export function hasRotation({ trust }: Payload): boolean {
  return (trust?.keys?.length ?? 0) + (trust?.revoked?.length ?? 0) > 0;
}
