import type { Layer } from '../model/bundle.ts';
import type { Policy } from '../settings/settings.ts';
import type { StoredBundle } from '../state/state.ts';

type KeptBundle = Pick<StoredBundle, 'contents'>;

export function keptLayers(
  { contents }: KeptBundle,
  { blobs, keep_components }: Policy['retention'],
): readonly Layer[] {
  if (blobs === 'kept') return contents.layers;
  if (keep_components.length === 0) return [];
  const images = contents.images.filter(
    ({ component }) => component !== undefined && keep_components.includes(component),
  );
  const indexes = new Set(images.flatMap(({ layers }) => layers));
  return contents.layers.filter((_layer, index) => indexes.has(index));
}

export function unknownComponents(
  bundles: readonly KeptBundle[],
  { keep_components }: Policy['retention'],
): readonly string[] {
  if (bundles.length === 0 || keep_components.length === 0) return [];
  const known = new Set(bundles.flatMap(({ contents }) => contents.images.map(({ component }) => component)));
  return [...new Set(keep_components)].filter((name) => !known.has(name));
}
