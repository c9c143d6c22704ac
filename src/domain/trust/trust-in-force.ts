import type { VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import type { Fault } from '../model/reason.ts';
import { hasRotation, type KeyRotation, type TrustRequirement } from './approval.ts';
import type { Role } from './role.ts';

export interface ShownKey {
  readonly name: string;
  readonly keyId: string;
  /** As in {@link TrustInForce.keys}. */
  readonly broughtBy?: BundleId;
}

/** With the keys that count in it, sorted by name. */
export interface ShownRole extends Omit<Role, 'keyIds'> {
  readonly keys: readonly ShownKey[];
}

/**
 * A key that never counts. `file`: the `*.revoked` file that names it. `byPerson`: by `stickpin
 * trust revoke`. `revokedBy`: the bundle that revoked it, where neither did, and `role` in which it
 * no longer counts (absent: among the plain keys). None of them: a file did that is gone.
 */
interface RevokedKey {
  readonly keyId: string;
  readonly revokedBy?: BundleId;
  readonly role?: string;
  readonly file?: string;
  readonly byPerson?: true;
}

/** What bundles are judged by. */
export interface TrustInForce {
  readonly require: TrustRequirement;
  /** How many distinct keys must have signed, at least 1. */
  readonly threshold: number;
  /**
   * Sorted by name. `broughtBy`: the bundle that rotated it in; absent for a key of
   * `trust.keys_dir`.
   */
  readonly keys: readonly ShownKey[];
  /** Keys that count in a role only, and what they may sign; sorted by name. Default none. */
  readonly roles?: readonly ShownRole[];
  readonly revoked: readonly RevokedKey[];
  /** Files of `trust.keys_dir` that could not be used, a sentence each that names the file. */
  readonly problems: readonly string[];
  /** Revocations can't be read, so that no key counts. */
  readonly revocationsUnreadable: boolean;
  /** Cause and remedy, without full stop; absent when they can be read. */
  readonly cause?: string;
  /**
   * A private key is among them, or no key is trusted. Absent when all is well.
   */
  readonly alarm?: Fault;
}

/**
 * A release carries images. A bundle without ("a bundle may carry nothing else", bundle format,
 * `advisories`) is a notice: it is adopted for its advisories and keys, and nothing of it is
 * preloaded or activated.
 */
export function isRelease({ contents }: Pick<VerifiedBundle, 'contents'>): boolean {
  return contents.images.length > 0;
}

/** How many keys and advisories of a notice are in force. */
export interface NoticeResult {
  readonly advisories: number;
  readonly keysTrusted: number;
  readonly keysRevoked: number;
  /** It carries keys, and too few trusted keys had signed it when it was adopted. */
  readonly areKeysLeft: boolean;
}

/** `rotation`: all that came by rotation, or what comes with this notice. */
export function noticeResult({ payload }: Pick<VerifiedBundle, 'payload'>, rotation: KeyRotation): NoticeResult {
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
