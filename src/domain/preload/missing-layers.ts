import type { Image, Layer, VerifiedBundle } from '../model/bundle.ts';
import type { Digest } from '../model/digest.ts';

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
 * What counts of the layers that an image lacks. `contents.json` lists the layers of all manifests
 * of an index without their limits; a runtime takes one manifest. This is an upper bound: each
 * layer of that manifest counts, or a larger blob with the same content, its twin packed with gzip
 * or zstd. Variants for other processors count beside it.
 */
export function largerTwins(layers: readonly Layer[]): readonly Layer[] {
  const larger = new Map<Digest, Layer>();
  for (const layer of layers) {
    const known = larger.get(layer.diffId);
    if (known === undefined || known.sizeBytes < layer.sizeBytes) larger.set(layer.diffId, layer);
  }
  return [...larger.values()];
}
