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
