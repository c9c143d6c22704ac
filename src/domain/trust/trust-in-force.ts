import { hasFilesAlone, type VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { Fault } from '../model/reason.ts';
import { hasRotation, type KeyRotation, type TrustRequirement } from './approval.ts';
import type { Role } from './role.ts';

export interface ShownKey {
  readonly name: string;
  readonly keyId: string;
  /** See {@link TrustInForce.keys}. */
  readonly broughtBy?: BundleId;
}

/** Includes the keys that count in it, sorted by name. */
export interface ShownRole extends Omit<Role, 'keyIds'> {
  readonly keys: readonly ShownKey[];
}

/**
 * A key that never counts. `file` is the `*.revoked` file that names it. `byPerson` means `stickpin
 * trust revoke`. `revokedBy` is the bundle that revoked it, if neither did. `role` is where it no
 * longer counts (absent: among the plain keys). A key with none of them was in a removed file.
 */
interface RevokedKey {
  readonly keyId: string;
  readonly revokedBy?: BundleId;
  readonly role?: string;
  readonly file?: string;
  readonly byPerson?: true;
}

/** The rules that judge bundles. */
export interface TrustInForce {
  readonly require: TrustRequirement;
  /** How many distinct keys must have signed, at least 1. */
  readonly threshold: number;
  /**
   * Sorted by name. `broughtBy` is the bundle that rotated the key in. Absent for a key of
   * `trust.keys_dir`.
   */
  readonly keys: readonly ShownKey[];
  /** Keys that count in a role only, and what they may sign. Sorted by name. Default none. */
  readonly roles?: readonly ShownRole[];
  readonly revoked: readonly RevokedKey[];
  /** One sentence for each unusable file of `trust.keys_dir`, with its name. */
  readonly problems: readonly string[];
  /** Revocations can't be read, so that no key counts. */
  readonly revocationsUnreadable: boolean;
  /** Cause and remedy, without full stop. Absent when revocations can be read. */
  readonly cause?: string;
  /** A private key is among them, or no key is trusted. Absent when all is well. */
  readonly alarm?: Fault;
}

/**
 * A release carries images, or attached files alone. Any other bundle is a notice: it is adopted
 * for its advisories and keys, and never preloaded or activated.
 */
export function isRelease({ contents, payload }: VerifiedBundle): boolean {
  return contents.images.length > 0 || hasFilesAlone(payload);
}

/** How many keys and advisories of a notice are in force. */
export interface NoticeResult {
  readonly advisories: number;
  readonly keysTrusted: number;
  readonly keysRevoked: number;
  /** The notice carries keys, and too few trusted keys had signed it when it was adopted. */
  readonly areKeysLeft: boolean;
}

/** @param rotation all that came by rotation, or the keys that come with this notice */
export function noticeResult({ payload }: VerifiedBundle, rotation: KeyRotation): NoticeResult {
  const [pems, revoked] = [new Set(payload.trust?.keys), new Set(payload.trust?.revoked)];
  const inRole = ({ role }: { readonly role?: string }) => role === payload.trust?.role;
  const keysTrusted = countKeys(rotation.keys.filter((key) => pems.has(key.pem) && inRole(key)));
  const keysRevoked = countKeys(rotation.revoked.filter((key) => revoked.has(key.keyId) && inRole(key)));
  const areKeysLeft = hasRotation(payload) && keysTrusted + keysRevoked === 0;
  return { advisories: payload.advisories?.length ?? 0, keysTrusted, keysRevoked, areKeysLeft };
}

/** Several bundles may name the same key. */
function countKeys(keys: readonly { readonly keyId: string }[]): number {
  return new Set(keys.map(({ keyId }) => keyId)).size;
}
