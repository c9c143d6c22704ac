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
 * An upper bound: `contents.json` lists the layers of all manifests of an index. Of twins with the
 * same content, packed with gzip or zstd, the larger counts.
 */
export function largerTwins(layers: readonly Layer[]): readonly Layer[] {
  const larger = new Map<Digest, Layer>();
  for (const layer of layers) {
    const known = larger.get(layer.diffId);
    if (known === undefined || known.sizeBytes < layer.sizeBytes) larger.set(layer.diffId, layer);
  }
  return [...larger.values()];
}
