import { formatCount } from '../../../platform/sizes.ts';
import type { WantedRelease } from '../../fleet/turn.ts';
import { bundleTitle, type Payload, type VerifiedBundle } from '../../model/bundle.ts';
import { parseReference } from '../../model/reference.ts';
import type { ImageSupply } from '../../preload/supply.ts';
import type { NoticeResult } from '../../trust/trust-in-force.ts';
import type { TrustReport } from '../status-schema.ts';

/** `signature by factory-2026 ok`, or `approved by its digest`. */
export function trustedBy({ signedBy }: Pick<VerifiedBundle, 'signedBy'>): string {
  return signedBy.length === 0 ? 'approved by its digest' : `signature by ${signedBy.join(', ')} ok`;
}

/** `ocp notice 2026.1.1`. */
export function noticeTitle({ name, version }: Pick<Payload, 'name' | 'version'>): string {
  return `${name} notice ${version}`;
}

/** `2 advisories taken, 1 key trusted; it holds no images`. */
export function noticeEffect({ advisories, keysTrusted, keysRevoked, areKeysLeft }: NoticeResult): string {
  const parts = [
    ...(advisories === 0 ? [] : [advisories === 1 ? '1 advisory taken' : `${advisories} advisories taken`]),
    ...(keysTrusted === 0 ? [] : [`${formatCount(keysTrusted, 'key')} trusted`]),
    ...(keysRevoked === 0 ? [] : [`${formatCount(keysRevoked, 'key')} revoked`]),
    ...(areKeysLeft ? ['its keys not taken, since too few trusted keys signed it'] : []),
  ];
  return `${parts.join(', ') || 'nothing to take'}; it holds no images`;
}

/** A file, `stickpin trust revoke`, or a bundle. */
export function revokerText({
  file,
  byPerson,
  revokedBy,
  role,
}: Omit<TrustReport['revoked'][number], 'keyId'>): string {
  if (file !== undefined) return file;
  if (byPerson) return 'stickpin trust revoke';
  if (revokedBy === undefined) return 'a file that is gone';
  return `bundle ${revokedBy}${role === undefined ? '' : `, in role ${role} only`}`;
}

/**
 * Where what is absent of a bundle comes from, for people: media, registries, or the node's own
 * disk.
 */
export function sourcesOf({
  blobMedia,
  pullableImages,
  onlineImages,
}: Pick<ImageSupply, 'pullableImages' | 'onlineImages'> & {
  readonly blobMedia: readonly string[];
}): readonly string[] {
  const registries = onlineImages.map(({ reference }) => parseReference(reference).repository.split('/')[0] ?? '');
  const isLocal = blobMedia.length === 0 && pullableImages.length > onlineImages.length;
  return [...blobMedia, ...(isLocal ? [OWN_DISK] : []), ...new Set(registries)];
}

const OWN_DISK = "this node's own copy";

export function wantedReleaseText({ name, version, nodes }: WantedRelease): string {
  const [first = '', ...others] = nodes;
  const where = others.length === 0 ? first : `${first} and ${formatCount(others.length, 'other node')}`;
  return `${bundleTitle({ name, version })} is loaded on ${where}, and no node can give it: plug its stick into any node.`;
}

export function unmountedText(label: string): string {
  return `${label} was unmounted; plug it in again or run 'stickpin rescan'`;
}
