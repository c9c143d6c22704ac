import type { Image } from '../model/bundle.ts';
import { formatReference, parseReference, type Reference, repositoryOf } from '../model/reference.ts';
import { isImagePattern, type PodImage } from './pod-images.ts';

export interface ManifestImage extends PodImage {
  readonly file: string;
}

export type ManifestProblem =
  | { readonly kind: 'no-image' }
  /** The policy is `Always`, or Kubernetes derives `Always` from its tag or the lack of one. */
  | { readonly kind: 'always-pulled'; readonly image: string; readonly since: 'policy' | 'no-tag' | 'latest' }
  | { readonly kind: 'no-full-name'; readonly image: string }
  | { readonly kind: 'not-carried'; readonly image: string }
  | { readonly kind: 'other-digest'; readonly image: string; readonly repository: string }
  /** `tags`: those that the bundle carries of this repository. */
  | { readonly kind: 'other-tag'; readonly image: string; readonly tags: readonly string[] };

export interface ManifestWarning {
  readonly problem: ManifestProblem;
  readonly first: ManifestImage;
  readonly more: number;
}

/** What will fail without a registry: one warning for each image and cause, in the given order. */
export function manifestWarnings(used: readonly ManifestImage[], images: readonly Image[]): readonly ManifestWarning[] {
  const warnings = new Map<string, ManifestWarning>();
  const carried = carriedBy(images);
  for (const place of used) {
    for (const problem of problemsOf(place, carried)) {
      const key = JSON.stringify(problem);
      const { first = place, more = -1 } = warnings.get(key) ?? {};
      warnings.set(key, { problem, first, more: more + 1 });
    }
  }
  return [...warnings.values()];
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

function problemsOf({ image, pullPolicy }: PodImage, carried: Carried): ManifestProblem[] {
  if (image === '') return [{ kind: 'no-image' }];
  if (isImagePattern(image)) return [];
  const reference = parsed(image);
  const always = alwaysPulled(image, pullPolicy, reference);
  if (reference === undefined) return [...always, { kind: 'no-full-name', image }];
  return [...always, ...absence(image, reference, carried)];
}

/** Kubernetes: `Always` is the default for `latest` and without tag and digest. */
function alwaysPulled(
  image: string,
  pullPolicy: string | undefined,
  reference: Reference | undefined,
): ManifestProblem[] {
  if (pullPolicy === 'Always') return [{ kind: 'always-pulled', image, since: 'policy' }];
  if (pullPolicy !== undefined) return [];
  const { tag, digest } = reference ?? looselyParsed(image);
  if (digest !== undefined || (tag !== undefined && tag !== 'latest')) return [];
  return [{ kind: 'always-pulled', image, since: tag === undefined ? 'no-tag' : 'latest' }];
}

function absence(image: string, { repository, tag, digest }: Reference, { names, tags }: Carried): ManifestProblem[] {
  const name = formatReference(digest === undefined ? { repository, tag: tag ?? 'latest' } : { repository, digest });
  if (names.has(name)) return [];
  const others = tags.get(repository);
  if (others === undefined) return [{ kind: 'not-carried', image }];
  if (digest !== undefined) return [{ kind: 'other-digest', image, repository }];
  return [{ kind: 'other-tag', image, tags: others }];
}

function parsed(image: string): Reference | undefined {
  try {
    return parseReference(image);
  } catch {
    return undefined;
  }
}

function looselyParsed(image: string): { readonly tag?: string; readonly digest?: string } {
  const [named = '', digest] = image.split('@');
  const tag = named.slice(named.lastIndexOf('/') + 1).split(':')[1];
  return { ...(tag !== undefined && { tag }), ...(digest !== undefined && { digest }) };
}
