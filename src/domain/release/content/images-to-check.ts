import type { Image } from '../../model/bundle.ts';
import type { BundleId, Digest } from '../../model/digest.ts';
import type { ExpectedLayer } from '../../model/image.ts';
import type { StoredBundle } from '../../state/state.ts';
import { keptBundles } from '../recorded-phase.ts';

/** An image of kept releases that is to be checked. */
export interface ImageToCheck {
  readonly reference: string;
  /** Of its manifest, or of the index above it. */
  readonly digest: Digest;
  readonly layers: readonly ExpectedLayer[];
}

/**
 * The images of all releases that are not retired, or of one of them, each once, in the order of
 * adoption.
 */
export function imagesToCheck(bundles: readonly StoredBundle[], only?: BundleId): readonly ImageToCheck[] {
  const chosen = keptBundles(bundles).filter(({ bundleId }) => only === undefined || bundleId === only);
  const images = chosen.flatMap((bundle) => bundle.contents.images.map((image) => toCheck(image, bundle)));
  return [...new Map(images.map((image) => [image.reference, image])).values()];
}

function toCheck({ reference, digest, layers }: Image, { contents }: StoredBundle): ImageToCheck {
  const own = layers.flatMap((index) => contents.layers[index] ?? []);
  return {
    reference,
    digest,
    layers: own.map((layer) => ({ digest: layer.digest, size: layer.sizeBytes, diffId: layer.diffId })),
  };
}
