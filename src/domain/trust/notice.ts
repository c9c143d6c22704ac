import type { VerifiedBundle } from '../model/bundle.ts';
import { hasRotation, type KeyRotation } from './key-rotation.ts';

/**
 * Whether a bundle is a release: it carries images. One without ("a bundle may carry nothing else",
 * bundle format, `advisories`) is a notice: it is adopted for its advisories and keys, and there is
 * nothing to preload or to activate.
 */
export function isRelease({ contents }: Pick<VerifiedBundle, 'contents'>): boolean {
  return contents.images.length > 0;
}

/** How many of the things that a notice carries are in force. */
export interface NoticeResult {
  readonly advisories: number;
  readonly keysTrusted: number;
  readonly keysRevoked: number;
  /** It carries keys and too few trusted keys had signed it when it was adopted. */
  readonly areKeysLeft: boolean;
}

/**
 * What is taken of an adopted notice. `rotation`: all that came by rotation, or what comes with
 * this one.
 */
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
