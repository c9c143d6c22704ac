import { formatCount } from '../../../platform/sizes.ts';
import type { Payload, VerifiedBundle } from '../../model/bundle.ts';
import type { NoticeResult } from '../../trust/trust-in-force.ts';

/**
 * Why a bundle is trusted, for people: `signature by factory-2026 ok`, or `approved by its digest`.
 */
export function trustedBy({ signedBy }: Pick<VerifiedBundle, 'signedBy'>): string {
  return signedBy.length === 0 ? 'approved by its digest' : `signature by ${signedBy.join(', ')} ok`;
}

/** What people call a notice: `ocp notice 2026.1.1`. */
export function noticeTitle({ name, version }: Pick<Payload, 'name' | 'version'>): string {
  return `${name} notice ${version}`;
}

/** What of a notice is in force: `2 advisories taken, 1 key trusted; it holds no images`. */
export function noticeEffect({ advisories, keysTrusted, keysRevoked, areKeysLeft }: NoticeResult): string {
  const parts = [
    ...(advisories === 0 ? [] : [advisories === 1 ? '1 advisory taken' : `${advisories} advisories taken`]),
    ...(keysTrusted === 0 ? [] : [`${formatCount(keysTrusted, 'key')} trusted`]),
    ...(keysRevoked === 0 ? [] : [`${formatCount(keysRevoked, 'key')} revoked`]),
    ...(areKeysLeft ? ['its keys not taken, since too few trusted keys signed it'] : []),
  ];
  return `${parts.join(', ') || 'nothing to take'}; it holds no images`;
}
