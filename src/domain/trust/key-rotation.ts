import type { Payload } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';

/** A key that came into force with a bundle (bundle format, `trust.keys`). */
export interface RotatedKey {
  /** Lower-case hex SHA-256 of the DER SubjectPublicKeyInfo. */
  readonly keyId: string;
  readonly pem: string;
  /** What its signer calls it, for people only; absent where the bundle does not say. */
  readonly name?: string;
  /** The bundle that added it. */
  readonly bundleId: BundleId;
  /** The role in which it counts; absent for a plain key. */
  readonly role?: string;
}

/**
 * A key that a bundle took out of force (bundle format, `trust.revoked`). Only an administrator
 * brings it back.
 */
export interface RevokedKey {
  readonly keyId: string;
  readonly bundleId: BundleId;
  /** The role in which it counts no more; absent: among the plain keys. */
  readonly role?: string;
  /**
   * When its bundle was adopted, of a revocation that was recorded later, since it was lost; in
   * milliseconds since the epoch.
   */
  readonly remadeAt?: number;
}

/**
 * All that came by rotation, in the order of adoption: a key once for each bundle that names it.
 * Kept when the bundles are gone.
 */
export interface KeyRotation {
  readonly keys: readonly RotatedKey[];
  readonly revoked: readonly RevokedKey[];
}

/** Whether a bundle may call a key so: safe on a terminal, and a file name. */
export function isKeyName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text);
}

/** What is known of revocations in one round. */
export interface Revocations {
  /**
   * Key ids that never count among the plain keys: of the administrator, now or earlier, and of
   * bundles that rotated plain keys.
   */
  readonly keyIds: readonly string[];
  /**
   * Key ids that never count in a role, by the role's name: of the administrator, and of bundles
   * that rotated keys of that role. Default none.
   */
  readonly inRoles?: ReadonlyMap<string, readonly string[]>;
  /** Revocations can't be read, so that nobody knows which keys are meant. */
  readonly revocationsUnreadable: boolean;
  /** Why they can't, and what to do, without full stop; absent when they can. */
  readonly cause?: string;
}

/** Nothing came by rotation. */
export const NO_ROTATION: KeyRotation = { keys: [], revoked: [] };

/** Whether a payload asks for a change of keys. */
export function hasRotation({ trust }: Pick<Payload, 'trust'>): boolean {
  return (trust?.keys?.length ?? 0) + (trust?.revoked?.length ?? 0) > 0;
}
