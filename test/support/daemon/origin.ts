import type { SampleBundle } from '../bundles/sample-bundle.ts';
import { type SampleImage, sampleImage } from '../bundles/sample-image.ts';
import type { SourceRegistry } from '../source-registry.ts';

/**
 * Puts the images of a bundle into the registry of the network, under their tags. The tag of the
 * first one has moved there since: it names another image, which is returned.
 */
export function publishMoved(origin: SourceRegistry, { images }: SampleBundle): SampleImage {
  const moved = sampleImage({ seed: 'moved' });
  origin.publish(...images, { reference: images[0]?.reference ?? '', image: moved });
  return moved;
}

/** How often the registry was asked for anything but whether it is one. */
export function askedFor({ requests }: SourceRegistry): number {
  return requests.filter(({ kind }) => kind !== 'ping').length;
}
