import type { Image } from '../../domain/model/bundle.ts';
import {
  formatReference,
  hasUpperCaseHost,
  parseReference,
  type Reference,
  repositoryOf,
} from '../../domain/model/reference.ts';
import { isImagePattern, type ManifestImage } from '../../domain/release/manifest-images.ts';
import { oneLine } from '../../platform/plain-text.ts';

/** What fails without a registry: one line for each image and cause, in the given order. */
export function manifestWarnings(used: readonly ManifestImage[], images: readonly Image[]): readonly string[] {
  const found = new Map<string, { readonly first: ManifestImage; readonly more: number }>();
  const carried = carriedBy(images);
  for (const place of used) {
    for (const problem of problemsOf(place, carried)) {
      const { first = place, more = -1 } = found.get(problem) ?? {};
      found.set(problem, { first, more: more + 1 });
    }
  }
  return [...found].map(([problem, { first, more }]) =>
    oneLine(`${first.file}: ${first.usedBy}${more === 0 ? '' : ` and ${more} more`}: ${problem}`),
  );
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
    const short = names.map((name) => name.slice(name.lastIndexOf(':') + 1));
    tags.set(repository, [...(tags.get(repository) ?? []), ...short]);
  }
  return { names: new Set(images.flatMap(({ reference, tags: names }) => [reference, ...names])), tags };
}

function problemsOf({ image, pullPolicy }: ManifestImage, carried: Carried): string[] {
  if (image === '') return ['it names no image'];
  if (isImagePattern(image)) return [];
  const reference = parsed(image);
  const always = alwaysPulled(image, pullPolicy, reference);
  if (reference !== undefined) return [...always, ...absence(image, reference, carried)];
  return [...always, `image ${image} is not in the bundle: it has no full name, as quay.io/…`];
}

const COSTS = 'the node asks the registry each time it starts';

/** Kubernetes: `Always` is the default for `latest` and without tag and digest. */
function alwaysPulled(image: string, pullPolicy: string | undefined, reference: Reference | undefined): string[] {
  if (pullPolicy === 'Always') return [`imagePullPolicy of ${image} is Always: ${COSTS}; use IfNotPresent`];
  if (pullPolicy !== undefined) return [];
  const { tag, digest } = reference ?? looselyParsed(image);
  if (digest !== undefined || (tag !== undefined && tag !== 'latest')) return [];
  const what = tag === undefined ? 'no tag' : "the tag 'latest'";
  return [`image ${image} has ${what}, which means imagePullPolicy Always: ${COSTS}; use a version`];
}

function absence(image: string, { repository, tag, digest }: Reference, { names, tags }: Carried): string[] {
  const name = formatReference(digest === undefined ? { repository, tag: tag ?? 'latest' } : { repository, digest });
  const others = tags.get(repository);
  const isHidden = hasUpperCaseHost(image);
  if (!isHidden && names.has(name)) return [];
  if (isHidden || others === undefined) return [`image ${image} is not in the bundle`];
  if (digest !== undefined) return [`image ${image} is not in the bundle: it carries another digest of ${repository}`];
  const shown = `${others.slice(0, 5).join(', ')}${others.length > 5 ? ' …' : ''}`;
  const known = others.length === 0 ? 'images without a tag' : `the tags ${shown}`;
  return [`image ${image} is not in the bundle by that tag: the bundle has only ${known} of its repository`];
}

function parsed(image: string): Reference | undefined {
  try {
    return parseReference(image);
  } catch {
    return undefined;
  }
}

function looselyParsed(image: string): { readonly tag?: string | undefined; readonly digest?: string | undefined } {
  const [named = '', digest] = image.split('@');
  return { tag: named.slice(named.lastIndexOf('/') + 1).split(':')[1], digest };
}
