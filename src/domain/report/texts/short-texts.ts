import { formatCount } from '../../../platform/sizes.ts';
import type { RuntimeSupport } from '../../assess/derive-phase.ts';
import type { Payload, VerifiedBundle } from '../../model/bundle.ts';
import { parseReference } from '../../model/reference.ts';
import { type Opening, wallTimeOf } from '../../model/windows.ts';
import type { ImageSupply } from '../../preload/supply.ts';
import type { NoticeResult } from '../../trust/trust-in-force.ts';
import type { TrustReport } from '../status-schema.ts';

/** Returns why it is unknown whether stickpin works with a runtime, as a clause for `doctor`. */
export function supportText(support: Extract<RuntimeSupport, { readonly kind: 'untried' | 'unreadable' }>): string {
  return support.kind === 'untried'
    ? `stickpin was not tried with ${support.runtime}`
    : `the version of ${support.runtime} can't be read; stickpin needs ${support.needed} or newer`;
}

/**
 * Returns `Sat 2026-11-28 23:30 to Sun 2026-11-29 00:30 (Europe/Berlin)`, on the zone's wall clock.
 */
export function openingText({ opensAt, closesAt }: Opening, zone: string): string {
  const begin = opensAt === undefined ? 'open now' : wallText(opensAt, zone);
  const end = closesAt === undefined ? 'with no end within weeks' : `to ${wallText(closesAt, zone)}`;
  return `${begin} ${end} (${zone})`;
}

/** Returns `12.5 %`. */
export function percentText(share: number): string {
  return `${Number((share * 100).toPrecision(6))} %`;
}

/** Returns `Sat 2026-11-28 23:30`. */
export function wallText(time: number, zone: string): string {
  const { weekday, date, time: clock } = wallTimeOf(time, zone);
  return `${weekday} ${date} ${clock}`;
}

/** The last time that a Date can hold (ECMA-262, "Time Values"). */
const LAST_TIME = 8.64e15;

/** Returns `2026-03-01T08:00:00Z`. */
export function timeText(time: number): string {
  return Math.abs(time) > LAST_TIME ? 'the year 275760 or later' : new Date(time).toISOString().replace('.000Z', 'Z');
}

/** Returns `signature by factory-2026 ok`, or `approved by its digest`. */
export function trustedBy({ signedBy }: Pick<VerifiedBundle, 'signedBy'>): string {
  return signedBy.length === 0 ? 'approved by its digest' : `signature by ${signedBy.join(', ')} ok`;
}

/** Returns `112 images present and pinned`, or `no images, 2 attached files`. */
export function contentText(
  { contents, payload }: Pick<VerifiedBundle, 'contents' | 'payload'>,
  state = 'present and pinned',
): string {
  const count = contents.images.length;
  if (count > 0) return `${formatCount(count, 'image')} ${state}`;
  return `no images, ${formatCount(payload.attachments?.length ?? 0, 'attached file')}`;
}

/** Returns `ocp notice 2026.1.1`. */
export function noticeTitle({ name, version }: Payload): string {
  return `${name} notice ${version}`;
}

/** Returns `2 advisories taken, 1 key trusted; it holds no images`. */
export function noticeEffect({ advisories, keysTrusted, keysRevoked, areKeysLeft }: NoticeResult): string {
  const parts = [
    ...(advisories === 0 ? [] : [advisories === 1 ? '1 advisory taken' : `${advisories} advisories taken`]),
    ...(keysTrusted === 0 ? [] : [`${formatCount(keysTrusted, 'key')} trusted`]),
    ...(keysRevoked === 0 ? [] : [`${formatCount(keysRevoked, 'key')} revoked`]),
    ...(areKeysLeft ? ['its keys not taken, since too few trusted keys signed it'] : []),
  ];
  return `${parts.join(', ') || 'nothing to take'}; it holds no images`;
}

/** Names a file, `stickpin trust revoke`, or a bundle. */
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
 * Names the sources of a bundle's absent parts for people: media, registries, or the node's own
 * disk.
 */
export function sourcesOf({
  blobMedia,
  pullableImages,
  onlineImages,
}: ImageSupply & {
  readonly blobMedia: readonly string[];
}): readonly string[] {
  const registries = onlineImages.map(({ reference }) => parseReference(reference).repository.split('/')[0] ?? '');
  const isLocal = blobMedia.length === 0 && pullableImages.length > onlineImages.length;
  return [...blobMedia, ...(isLocal ? [OWN_DISK] : []), ...new Set(registries)];
}

const OWN_DISK = "this node's own copy";

/** @param isAwaited a release waits for it */
export function unmountedText(label: string, isAwaited = true): string {
  const next = "plug it in again or run 'stickpin rescan'";
  return isAwaited
    ? `${label} was unmounted; ${next}`
    : `${label} was unmounted and may be removed; to read it, ${next}`;
}
