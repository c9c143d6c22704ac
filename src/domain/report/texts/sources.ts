import { parseReference } from '../../model/reference.ts';
import type { ImageSupply } from '../../preload/supply.ts';

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
