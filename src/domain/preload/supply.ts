import type { Image, VerifiedBundle } from '../model/bundle.ts';
import type { BundleId, Digest } from '../model/digest.ts';
import type { FoundBundle } from '../model/medium.ts';

/** What there is to pull from. */
export interface Supply {
  /** Layers and image manifests on this node: on any plugged medium, or on its own disk. */
  readonly availableBlobs: ReadonlySet<Digest>;
  /** Bundles of which a plugged medium carries an envelope without blobs. */
  readonly envelopes: ReadonlySet<BundleId>;
}

/** How the absent images of one bundle can be had. */
export interface ImageSupply {
  /** Whose missing layers are all at hand, or that may be pulled from their own registries. */
  readonly pullableImages: readonly Image[];
  /** Those of them that are to be pulled from their own registries. */
  readonly onlineImages: readonly Image[];
  /** Images for whose repositories our registry has anything to give. */
  readonly mirroredImages: readonly Image[];
}

/**
 * What all verified bundles that were found and the node's own disk offer together. A blob belongs
 * to no bundle: its digest says what it is.
 */
export function supplyOf(found: readonly FoundBundle[], localBlobs: ReadonlySet<Digest>): Supply {
  const availableBlobs = new Set(localBlobs);
  const envelopes = new Set<BundleId>();
  for (const entry of found) {
    if (entry.kind !== 'verified') continue;
    if (entry.isEnvelope) envelopes.add(entry.bundle.bundleId);
    const missing = new Set(entry.missing.map((blob) => blob.digest));
    const { layers, images } = entry.bundle.contents;
    for (const { digest } of [...layers, ...images]) if (!missing.has(digest)) availableBlobs.add(digest);
  }
  return { availableBlobs, envelopes };
}

/**
 * Sorts the absent images of a bundle by where they come from.
 *
 * INVARIANT: an image comes from one place, since CRI-O chooses its source at the manifest
 * (docs/runtime-facts.md, fact 12): at hand as a whole, or online.
 */
export function supplyImages(
  { bundleId, contents }: VerifiedBundle,
  absentImages: readonly Image[],
  { supply, presentLayers, online }: { supply: Supply; presentLayers: ReadonlySet<Digest>; online: boolean },
): ImageSupply {
  const layersOf = (image: Image) => image.layers.flatMap((index) => contents.layers[index] ?? []);
  const hasAll = (image: Image) =>
    supply.availableBlobs.has(image.digest) &&
    layersOf(image).every(({ digest }) => presentLayers.has(digest) || supply.availableBlobs.has(digest));
  const isOnline = online && supply.envelopes.has(bundleId);
  if (!isOnline) {
    return { pullableImages: absentImages.filter(hasAll), onlineImages: [], mirroredImages: contents.images };
  }
  const hasSome = (image: Image) => layersOf(image).some(({ digest }) => supply.availableBlobs.has(digest));
  return {
    pullableImages: absentImages,
    onlineImages: absentImages.filter((image) => !hasAll(image)),
    mirroredImages: contents.images.filter((image) => hasAll(image) || hasSome(image)),
  };
}
