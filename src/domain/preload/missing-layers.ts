import type { Image, Layer, VerifiedBundle } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';

/** The layers of `image` that the runtime has not got. */
export function missingLayersOf(
  image: Image,
  bundle: VerifiedBundle,
  presentLayers: ReadonlySet<Digest>,
): readonly Layer[] {
  return image.layers
    .map((index) => bundle.contents.layers[index])
    .filter((layer): layer is Layer => layer !== undefined && !presentLayers.has(layer.digest));
}

/**
 * What is counted of an image's layers: an image may have twins, packed with gzip and with zstd, of
 * which a runtime takes one. So of layers with the same content the larger blob counts.
 */
export function largerTwins(layers: readonly Layer[]): readonly Layer[] {
  const larger = new Map<Digest, Layer>();
  for (const layer of layers) {
    const known = larger.get(layer.diffId);
    if (known === undefined || known.sizeBytes < layer.sizeBytes) larger.set(layer.diffId, layer);
  }
  return [...larger.values()];
}
