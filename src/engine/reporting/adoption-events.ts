import type { Adoption } from '../../domain/adoption/unknown-bundles.ts';
import { bundleName, bundleTitle, type VerifiedBundle } from '../../domain/model/bundle.ts';
import type { Event } from '../../domain/model/condition.ts';
import { shortDigest } from '../../domain/model/digest.ts';
import { noticeEffect, noticeTitle, trustedBy } from '../../domain/report/texts/bundle-text.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { hasRotation, type KeyRotation, NO_ROTATION } from '../../domain/trust/approval.ts';
import { isRelease, noticeResult } from '../../domain/trust/trust-in-force.ts';
import { formatBytes, formatCount } from '../../platform/sizes.ts';

/** A bundle was adopted: who signed it, and what was found of it. */
export function adoptedEvent(adoption: Adoption, rotation: KeyRotation): Event {
  const { bundleId } = adoption.found.bundle;
  return {
    kind: 'bundleVerified',
    level: 'info',
    bundleId,
    medium: adoption.label,
    message: `${adoptionMessage(adoption, rotation)}, bundle ${shortDigest(bundleId)}`,
  };
}

function adoptionMessage({ label, found: { bundle, missing } }: Adoption, rotation: KeyRotation): string {
  const { payload } = bundle;
  if (!isRelease(bundle)) {
    const effect = noticeEffect(noticeResult(bundle, rotation));
    return `${noticeTitle(payload)} on ${label} verified: ${trustedBy(bundle)}, ${effect}`;
  }
  const { blobs, images, sizeBytes } = payload.totals;
  const found = `${blobs - missing.length} of ${blobs} blobs found`;
  return `${bundleTitle(payload)} on ${label} verified: ${trustedBy(bundle)}, ${found}, ${formatCount(images, 'image')}, ${formatBytes(sizeBytes)}`;
}

/**
 * What the maker of a bundle was warned of and signed with it, at most {@link TOLD_WARNINGS} lines;
 * nothing for most bundles.
 */
export function warningEvents({ bundleId, payload }: VerifiedBundle): Event[] {
  const { warnings = [] } = payload;
  const title = bundleTitle(payload);
  const told = warnings.slice(0, TOLD_WARNINGS).map((warning) => `${title}: its maker was warned: ${warning}`);
  const left = warnings.length - told.length;
  const rest = `${title}: its maker had ${left} more warnings; 'stickpin show ${bundleName(payload)}' has all`;
  return [...told, ...(left > 0 ? [rest] : [])].map((message) => ({
    kind: 'bundleWarned',
    level: 'warn',
    bundleId,
    message,
  }));
}

/** Lines for one bundle: the journal is not filled by what is shown elsewhere. */
const TOLD_WARNINGS = 10;

/** The signers of an adopted bundle are others than before. */
export function signersEvent({ bundleId, payload }: StoredBundle, signedBy: readonly string[]): Event {
  const message = `${bundleTitle(payload)} is signed by ${signedBy.join(', ')}`;
  return { kind: 'bundleVerified', level: 'info', bundleId, message };
}

/**
 * The trusted keys changed with a bundle, or did not although it says so. Nothing for a bundle that
 * names no keys.
 */
export function rotationEvents(bundle: VerifiedBundle, rotation: KeyRotation): Event[] {
  const { keys, revoked } = rotation;
  const { bundleId, payload } = bundle;
  if (!hasRotation(payload)) return [];
  const title = bundleTitle(payload);
  const where = payload.trust?.role === undefined ? '' : ` in role ${payload.trust.role}`;
  if (rotation === NO_ROTATION) {
    const message = `The keys that ${title} brings or revokes${where} are not taken: too few keys signed it that may do so`;
    return [{ kind: 'keysNotRotated', level: 'warn', bundleId, message }];
  }
  const list = (of: readonly { readonly keyId: string }[]) =>
    of.map(({ keyId }) => `${keyId.slice(0, 12)}…`).join(', ');
  const added = keys.length === 0 ? [] : [`trusts ${list(keys)}`];
  const removed = revoked.length === 0 ? [] : [`revokes ${list(revoked)}`];
  const done = keys.length + revoked.length === 0 ? ['changes no key'] : [...added, ...removed];
  const { trust } = payload;
  const left = (trust?.keys?.length ?? 0) + (trust?.revoked?.length ?? 0) - keys.length - revoked.length;
  const rest = left === 0 ? '' : `. Left out: ${formatCount(left, 'key')} that the role does not know, or too many`;
  const message = `With ${title} this node ${done.join(' and ')}${where}${rest}`;
  return [{ kind: 'keysRotated', level: 'info', bundleId, message }];
}
