import type { SampleBundle } from '../bundles/sample-bundle.ts';
import { type SampleImage, sampleImage } from '../bundles/sample-image.ts';
import type { SourceRegistry } from '../source-registry.ts';

/** Repository below the registry, and tag, of `registry/path:tag`. */
function placeOf(reference: string): { readonly path: string; readonly tag: string } {
  const [path = '', tag = ''] = reference.slice(reference.indexOf('/') + 1).split(':');
  return { path, tag };
}

/**
 * Puts the images of a bundle into the registry of the network, under their tags. The tag of the
 * first one has moved there since: it names another image, which is returned.
 */
export function publishMoved(origin: SourceRegistry, { images }: SampleBundle): SampleImage {
  for (const { reference, image } of images) {
    const { path, tag } = placeOf(reference);
    origin.add(path, image, [tag]);
  }
  const moved = sampleImage({ seed: 'moved' });
  const { path, tag } = placeOf(images[0]?.reference ?? '');
  origin.add(path, moved, [tag]);
  return moved;
}

/** How often the registry was asked for anything but whether it is one. */
export function askedFor({ requests }: SourceRegistry): number {
  return requests.filter(({ kind }) => kind !== 'ping').length;
}
