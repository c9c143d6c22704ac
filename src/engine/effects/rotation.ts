import { parsePublicKey } from '../../bundle/keys/keys.ts';
import { bundleTitle, type VerifiedBundle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/event.ts';
import { hasRotation, type KeyRotation, NO_ROTATION, rotatesKeys } from '../../domain/trust/key-rotation.ts';

/** The change of keys that comes into force with the adoption of `bundle` (bundle format, `trust`); none when too few trusted keys signed it. */
export function rotationOf(bundle: VerifiedBundle, threshold: number): KeyRotation {
  if (!rotatesKeys(bundle, threshold)) return NO_ROTATION;
  const { bundleId, payload } = bundle;
  return {
    // That each can be read was checked with the payload.
    keys: (payload.trust?.keys ?? []).map((pem) => ({ ...keyOf(pem), pem, bundleId })),
    revoked: (payload.trust?.revoked ?? []).map((keyId) => ({ keyId, bundleId })),
  };
}

function keyOf(pem: string): { keyId: string } {
  const { keyId } = parsePublicKey(pem, 'of trust.keys');
  return { keyId };
}

/** What is told of a change of keys, or of one that does not take effect. */
export function rotationEvents(bundle: VerifiedBundle, { keys, revoked }: KeyRotation): Event[] {
  const { bundleId, payload } = bundle;
  if (!hasRotation(payload)) return [];
  const title = bundleTitle(payload);
  if (keys.length + revoked.length === 0) {
    const message = `The keys that ${title} brings or revokes are not taken: too few trusted keys signed it`;
    return [{ kind: 'keysNotRotated', level: 'warn', bundleId, message }];
  }
  const list = (of: readonly { readonly keyId: string }[]) =>
    of.map(({ keyId }) => `${keyId.slice(0, 12)}…`).join(', ');
  const added = keys.length === 0 ? [] : [`trusts ${list(keys)}`];
  const removed = revoked.length === 0 ? [] : [`revokes ${list(revoked)}`];
  const message = `With ${title} this node ${[...added, ...removed].join(' and ')}`;
  return [{ kind: 'keysRotated', level: 'info', bundleId, message }];
}
