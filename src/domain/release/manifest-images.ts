import { defined } from '../../platform/defined.ts';
import type { Image } from '../model/bundle.ts';
import { formatReference, parseReference, type Reference, repositoryOf } from '../model/reference.ts';

interface PodImage {
  /** As `Deployment shop/web, container app`. */
  readonly usedBy: string;
  /** The text in the manifest. Empty when missing; OpenShift's image triggers fill it in later. */
  readonly image: string;
  /** `imagePullPolicy` of a container, `pullPolicy` of an image volume. */
  readonly pullPolicy?: string;
}

export interface PlacedPodImage extends PodImage {
  /** The named object, as `Deployment shop/web`. Empty where there is none. */
  readonly owner: string;
  /** The path in the named object, as `spec.template.spec.containers[0].image`. */
  readonly field: string;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * As in policies of Kyverno and Gatekeeper: `reg.example.com/* !*:latest`, `{{ element.image }}`.
 */
export function isImagePattern(image: string): boolean {
  return /[*?|!&]|\{\{/.test(image);
}

/** Members of a pod's spec that hold containers (Kubernetes API v1, PodSpec). */
const CONTAINERS = [
  ['initContainers', 'init container'],
  ['containers', 'container'],
  ['ephemeralContainers', 'ephemeral container'],
] as const;

/** Deeper documents are no Kubernetes objects. */
const MAX_DEPTH = 64;

/**
 * The images of all pods in a Kubernetes object, in its order. The shape of a pod's spec, a list of
 * containers, shows it, so the kinds of operators are found too. Texts, as in a ConfigMap, are
 * skipped.
 *
 * @param object parsed YAML or JSON
 */
export function podImagesIn(object: unknown): PodImage[] {
  return placedPodImagesIn(object).map(({ owner: _, field: __, ...image }) => image);
}

export function placedPodImagesIn(object: unknown): PlacedPodImage[] {
  return walk(object, { owner: '', field: '' }, []);
}

interface Place {
  readonly owner: string;
  readonly field: string;
}

function walk(value: unknown, { owner, field }: Place, above: readonly unknown[]): PlacedPodImage[] {
  // With YAML anchors an object may contain itself.
  if (typeof value !== 'object' || value === null || above.length > MAX_DEPTH || above.includes(value)) return [];
  const path = [...above, value];
  if (Array.isArray(value)) return value.flatMap((item, at) => walk(item, { owner, field: `${field}[${at}]` }, path));
  const object = value as Json;
  const own = ownerOf(object);
  const place = own === undefined ? { owner, field } : { owner: own, field: '' };
  const members = Object.entries(object);
  return [
    ...imagesOfSpec(object, place),
    ...members.flatMap(([key, member]) =>
      walk(member, { owner: place.owner, field: fieldBelow(place.field, key) }, path),
    ),
  ];
}

function fieldBelow(field: string, key: string): string {
  return field === '' ? key : `${field}.${key}`;
}

/** As `Deployment shop/web`. A pod template has no kind, so the enclosing object is named. */
function ownerOf({ kind, metadata }: Json): string | undefined {
  if (typeof kind !== 'string' || !isObject(metadata)) return undefined;
  const name = [metadata.name, metadata.generateName].find((text) => typeof text === 'string');
  if (name === undefined) return undefined;
  return typeof metadata.namespace === 'string' ? `${kind} ${metadata.namespace}/${name}` : `${kind} ${name}`;
}

function imagesOfSpec(spec: Json, { owner, field }: Place): PlacedPodImage[] {
  const by = (what: string, name: unknown) =>
    [...(owner === '' ? [] : [owner]), `${what} ${typeof name === 'string' ? name : '(no name)'}`].join(', ');
  const at = (list: string, index: number, rest: string) => `${fieldBelow(field, list)}[${index}].${rest}`;
  const containers = CONTAINERS.flatMap(([member, what]) =>
    objectsIn(spec[member])
      .filter(([container]) => typeof container.name === 'string' || typeof container.image === 'string')
      .map(([{ name, image, imagePullPolicy }, index]) =>
        podImage({ owner, usedBy: by(what, name), field: at(member, index, 'image') }, image, imagePullPolicy),
      ),
  );
  // Kubernetes API v1, ImageVolumeSource.
  const volumes = objectsIn(spec.volumes).flatMap(([{ name, image }, index]) =>
    isObject(image)
      ? [
          podImage(
            { owner, usedBy: by('volume', name), field: at('volumes', index, 'image.reference') },
            image.reference,
            image.pullPolicy,
          ),
        ]
      : [],
  );
  return [...containers, ...volumes];
}

function podImage(
  place: Pick<PlacedPodImage, 'owner' | 'usedBy' | 'field'>,
  image: unknown,
  pullPolicy: unknown,
): PlacedPodImage {
  return {
    ...place,
    image: typeof image === 'string' ? image.trim() : '',
    ...(typeof pullPolicy === 'string' && pullPolicy !== '' && { pullPolicy }),
  };
}

function objectsIn(list: unknown): [Json, number][] {
  return Array.isArray(list)
    ? list.flatMap((item, at) => (isObject(item) ? [[item, at] satisfies [Json, number]] : []))
    : [];
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A text that looks like an image, where Kubernetes itself starts none. */
interface LooseImage {
  /** As `Prometheus shop/main`. Empty where no enclosing object has kind and name. */
  readonly owner: string;
  readonly field: string;
  readonly image: string;
}

/** A repository has at most 255 bytes, a tag 128. */
const MAX_TEXT = 512;
const IMAGE_KEY = /image$/i;
/** As `nginx:1.25` or `team/app@sha256:…`. */
const SHORT_NAME = /^[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$/;

/**
 * What may be images of a Kubernetes object outside of pods: operators start images that a custom
 * resource, an argument or an environment variable names. That is
 *
 * - each text that is a whole reference with a tag or a digest, also behind `--flag=`;
 * - a member whose name ends in `image`: a short name with a tag or a digest, or an object with
 *   `repository` and `tag`.
 *
 * Texts of several words or lines, `status`, and the schemas of custom resources are skipped.
 *
 * @param object parsed YAML or JSON
 */
export function looseImagesIn(object: unknown): LooseImage[] {
  const inPods = new Set(placedPodImagesIn(object).map(placeName));
  return looseIn(object, { owner: '', field: '', key: '' }, []).filter((found) => !inPods.has(placeName(found)));
}

function placeName({ owner, field }: Pick<LooseImage, 'owner' | 'field'>): string {
  return JSON.stringify([owner, field]);
}

function looseIn(value: unknown, place: Place & { readonly key: string }, above: readonly unknown[]): LooseImage[] {
  const { owner, field, key } = place;
  if (typeof value === 'string') {
    const image = imageIn(value, key);
    return image === undefined ? [] : [{ owner, field, image }];
  }
  if (typeof value !== 'object' || value === null || above.length > MAX_DEPTH || above.includes(value)) return [];
  const path = [...above, value];
  if (Array.isArray(value)) {
    return value.flatMap((item, at) => looseIn(item, { owner, key, field: `${field}[${at}]` }, path));
  }
  const object = value as Json;
  if (object.kind === 'CustomResourceDefinition') return [];
  const parts = IMAGE_KEY.test(key) ? joined(object) : undefined;
  if (parts !== undefined) return [{ owner, field, image: parts }];
  const own = ownerOf(object);
  return Object.entries(object)
    .filter(([name]) => own === undefined || name !== 'status')
    .flatMap(([name, member]) =>
      looseIn(
        member,
        { owner: own ?? owner, key: name, field: fieldBelow(own === undefined ? field : '', name) },
        path,
      ),
    );
}

function imageIn(text: string, key: string): string | undefined {
  if (text.length > MAX_TEXT) return undefined;
  const image = text.trim().replace(/^--?[A-Za-z0-9._-]+=/, '');
  return isWholeReference(image) || (IMAGE_KEY.test(key) && SHORT_NAME.test(image)) ? image : undefined;
}

function isWholeReference(text: string): boolean {
  try {
    const { tag, digest } = parseReference(text);
    return tag !== undefined || digest !== undefined;
  } catch {
    return false;
  }
}

/** The form of many charts and operators: `{registry?, repository, tag}`. */
function joined({ registry, repository, tag }: Json): string | undefined {
  if (typeof repository !== 'string' || (typeof tag !== 'string' && typeof tag !== 'number')) return undefined;
  if (repository === '' || tag === '') return undefined;
  return `${typeof registry === 'string' && registry !== '' ? `${registry}/` : ''}${repository}:${tag}`;
}

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
  return defined({ tag, digest });
}
