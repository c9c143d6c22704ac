import { oneLine } from '../../platform/plain-text.ts';
import type { Image } from '../model/bundle.ts';
import { formatReference, parseReference, type Reference, repositoryOf } from '../model/reference.ts';
import type { PodImage } from './pod-images.ts';

/** An image that a workload asks for, and the file that says so. */
export interface ManifestImage extends PodImage {
  readonly file: string;
}

/**
 * What will go wrong on a node without a registry, when these workloads run from this bundle: a
 * line for each image and cause, in the order in which they are found, with the first place and how
 * many more there are.
 */
export function manifestWarnings(used: readonly ManifestImage[], images: readonly Image[]): string[] {
  const places = new Map<string, ManifestImage[]>();
  const carried = carriedBy(images);
  for (const place of used) {
    for (const problem of problemsOf(place, carried)) {
      const known = places.get(problem);
      if (known === undefined) places.set(problem, [place]);
      else known.push(place);
    }
  }
  return [...places].map(([problem, [first, ...more]]) => {
    const others = more.length === 0 ? '' : ` and ${more.length} more`;
    return oneLine(`${first?.file}: ${first?.usedBy}${others}: ${problem}`);
  });
}

interface Carried {
  /** `repository:tag` and `repository@digest`. */
  readonly names: ReadonlySet<string>;
  readonly tags: ReadonlyMap<string, readonly string[]>;
}

function carriedBy(images: readonly Image[]): Carried {
  const tags = new Map<string, string[]>();
  for (const { reference, tags: names } of images) {
    const repository = repositoryOf(reference);
    const own = names.map((name) => name.slice(name.lastIndexOf(':') + 1));
    tags.set(repository, [...(tags.get(repository) ?? []), ...own]);
  }
  return { names: new Set(images.flatMap(({ reference, tags: names }) => [reference, ...names])), tags };
}

function problemsOf({ image, pullPolicy }: PodImage, carried: Carried): string[] {
  if (image === '') return ['it names no image'];
  const reference = parsed(image);
  const always = alwaysPulled(image, pullPolicy, reference);
  if (reference === undefined)
    return [...always, `image ${image} is not in the bundle: it has no full name, as quay.io/…`];
  return [...always, ...absence(image, reference, carried)];
}

/**
 * Kubernetes: without a policy it is `Always` for the tag `latest` and where there is neither tag
 * nor digest, else `IfNotPresent`.
 */
function alwaysPulled(image: string, pullPolicy: string | undefined, reference: Reference | undefined): string[] {
  const costs = 'the node asks the registry each time it starts';
  if (pullPolicy === 'Always') return [`imagePullPolicy of ${image} is Always: ${costs}; use IfNotPresent`];
  if (pullPolicy !== undefined) return [];
  const { tag, digest } = reference ?? looselyParsed(image);
  if (digest !== undefined || (tag !== undefined && tag !== 'latest')) return [];
  const what = tag === undefined ? 'no tag' : "the tag 'latest'";
  return [`image ${image} has ${what}, which means imagePullPolicy Always: ${costs}; use a version`];
}

function absence(image: string, { repository, tag, digest }: Reference, { names, tags }: Carried): string[] {
  const name = formatReference(digest === undefined ? { repository, tag: tag ?? 'latest' } : { repository, digest });
  if (names.has(name)) return [];
  const others = tags.get(repository);
  if (others === undefined) return [`image ${image} is not in the bundle`];
  if (digest !== undefined) return [`image ${image} is not in the bundle: it carries another digest of ${repository}`];
  const carries = others.length === 0 ? 'that without a tag' : `of that only ${shown(others)}`;
  return [`image ${image} is not in the bundle by that tag: it carries ${carries}`];
}

function shown(tags: readonly string[]): string {
  return tags.length <= 5 ? tags.join(', ') : `${tags.slice(0, 5).join(', ')} …`;
}

function parsed(image: string): Reference | undefined {
  try {
    return parseReference(image);
  } catch {
    return undefined;
  }
}

/** Tag and digest of a short name, or of what is none. */
function looselyParsed(image: string): { readonly tag?: string; readonly digest?: string } {
  const [named = '', digest] = image.split('@');
  const tag = named.slice(named.lastIndexOf('/') + 1).split(':')[1];
  return { ...(tag !== undefined && { tag }), ...(digest !== undefined && { digest }) };
}
