import type { Image } from '../../../domain/model/bundle.ts';
import { parseReference } from '../../../domain/model/reference.ts';
import { compareSchemeTags, impliedTags, parseSchemeTag } from '../../../domain/model/version.ts';

/**
 * Adds the intermediate and short tags that the long tags of images imply (bundle format 1,
 * "Tags"), after the requested ones. A requested tag stays with its image. When several images
 * imply the same tag of a repository, the one with the highest long tag gets it.
 */
export function deriveTags<Planned extends Image>(images: readonly Planned[]): Planned[] {
  const asked = new Set(images.flatMap((image) => image.tags));
  const winners = new Map<string, { readonly image: Planned; readonly long: string }>();
  for (const image of images) {
    for (const long of image.tags.map(tagOf)) {
      for (const implied of impliedTags(long)) {
        const name = `${parseReference(image.reference).repository}:${implied}`;
        const known = winners.get(name);
        if (!asked.has(name) && (known === undefined || isHigher(long, known.long))) winners.set(name, { image, long });
      }
    }
  }
  return images.map((image) => {
    const derived = [...winners].filter(([, winner]) => winner.image === image).map(([name]) => name);
    return derived.length === 0 ? image : { ...image, tags: [...image.tags, ...derived] };
  });
}

function tagOf(name: string): string {
  return name.slice(name.lastIndexOf(':') + 1);
}

function isHigher(tag: string, other: string): boolean {
  const [a, b] = [parseSchemeTag(tag), parseSchemeTag(other)];
  return a !== undefined && b !== undefined && compareSchemeTags(a, b) > 0;
}
