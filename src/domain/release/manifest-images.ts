import { isRegistry } from '../model/reference.ts';

interface PodImage {
  /** `Deployment shop/web, container app` is one. */
  readonly usedBy: string;
  /** The text in the manifest. Empty when missing: OpenShift's image triggers fill it in later. */
  readonly image: string;
  /** `imagePullPolicy` of a container, `pullPolicy` of an image volume. */
  readonly pullPolicy?: string;
}

export interface PlacedPodImage extends PodImage {
  /** The named object, such as `Deployment shop/web`. Empty when there is none. */
  readonly owner: string;
  /** The path in the named object, such as `spec.template.spec.containers[0].image`. */
  readonly field: string;
}

export type Json = Readonly<Record<string, unknown>>;

/** Policies of Kyverno and Gatekeeper have `reg.example.com/* !*:latest`, `{{ element.image }}`. */
export function isImagePattern(image: string): boolean {
  return /[*?|!&]|\{\{/.test(image);
}

/** Templates and texts that pipelines fill in have these characters. No image name has them. */
const TEMPLATE = /[$%<>{}()]|\[\[|^\.{3}$|…/;
/** Builders such as ko use these. Sources of skopeo and addresses are mistakes, thus errors. */
const BUILT = /^(?!docker|https?|oci)[a-z][a-z0-9.+-]*:\/\//;
/** Istio and kubebuilder write these where their tools put the image. Examples use them, too. */
const KNOWN = /^(?:auto|controller(?::latest)?|image(?::(?:tag|latest|version))?)$/;
/** sed and envsubst replace such words in capitals. */
const CAPITALS = /^(?:IMAGE|IMG|TAG|VERSION|REGISTRY|REPO|REPOSITORY|PLACEHOLDER|REPLACE|CHANGE|TODO|TBD|YOUR)$/;
const SMALL = /^(?:replaceme|changeme|todo|tbd|your.*|.*placeholder|my(?:image|registry|repo|org|user|username))$/;

/**
 * Detects names that other tools replace before a pod starts: `auto`, `${IMAGE}:${TAG}`, `$(IMG)`,
 * `ko://x/y`, `%IMAGE%`, `<image>`, `REGISTRY/IMAGE:TAG`, `your-registry/app`. On a public registry
 * anybody could own such a name.
 */
export function isImagePlaceholder(image: string): boolean {
  if (TEMPLATE.test(image) || BUILT.test(image) || KNOWN.test(image)) return true;
  const isShort = !isRegistry(image.slice(0, Math.max(image.indexOf('/'), 0)));
  return image.split(/[/:@[\]]/).some((part) => {
    if (/^[A-Z0-9_-]+$/.test(part)) return part.split(/[_-]+/).some((word) => CAPITALS.test(word));
    return isShort && SMALL.test(part.replaceAll(/[_-]/g, ''));
  });
}

/** These API groups are policies. Their pods are compared with others and never started. */
const POLICIES = /(?:^|\.)(?:kyverno\.io|gatekeeper\.sh)\//;

/** These members of a pod's spec hold containers (Kubernetes API v1, PodSpec). */
const CONTAINERS = [
  ['initContainers', 'init container'],
  ['containers', 'container'],
  ['ephemeralContainers', 'ephemeral container'],
] as const;

/** Deeper documents are no Kubernetes objects. */
export const MAX_DEPTH = 64;

/**
 * Returns the images of all pods in a Kubernetes object, in its order, and the related images of an
 * operator's bundle or ClusterServiceVersion. A pod's spec is found by its list of containers, so
 * the kinds of operators are found too. Policies and texts, such as in a ConfigMap, are skipped.
 *
 * @param object parsed YAML or JSON
 */
export function podImagesIn(object: unknown): PodImage[] {
  return placedPodImagesIn(object).map(({ owner: _, field: __, ...image }) => image);
}

export function placedPodImagesIn(object: unknown): PlacedPodImage[] {
  return walk(object, { owner: '', field: '' }, []);
}

export interface Place {
  readonly owner: string;
  readonly field: string;
}

function walk(value: unknown, { owner, field }: Place, above: readonly unknown[]): PlacedPodImage[] {
  // With YAML anchors an object may contain itself.
  if (typeof value !== 'object' || value === null || above.length > MAX_DEPTH || above.includes(value)) return [];
  const path = [...above, value];
  if (Array.isArray(value)) return value.flatMap((item, at) => walk(item, { owner, field: `${field}[${at}]` }, path));
  const object = value as Json;
  if (typeof object.apiVersion === 'string' && POLICIES.test(object.apiVersion)) return [];
  const objectOwner = ownerOf(object);
  const place = objectOwner === undefined ? { owner, field } : { owner: objectOwner, field: '' };
  const members = Object.entries(object);
  return [
    ...imagesOfSpec(object, place),
    ...imagesOfOperator(object, place),
    ...members.flatMap(([key, member]) =>
      walk(member, { owner: place.owner, field: fieldBelow(place.field, key) }, path),
    ),
  ];
}

export function fieldBelow(field: string, key: string): string {
  return field === '' ? key : `${field}.${key}`;
}

/** Returns `Deployment shop/web`. A pod template has no kind, so the enclosing object is named. */
export function ownerOf({ kind, metadata, schema, name: ownName }: Json): string | undefined {
  if (isOfCatalog(schema) && typeof ownName === 'string') return `${schema} ${ownName}`;
  if (typeof kind !== 'string' || !isObject(metadata)) return undefined;
  const name = [metadata.name, metadata.generateName].find((text) => typeof text === 'string');
  if (name === undefined) return undefined;
  return typeof metadata.namespace === 'string' ? `${kind} ${metadata.namespace}/${name}` : `${kind} ${name}`;
}

function imagesOfSpec(spec: Json, { owner, field }: Place): PlacedPodImage[] {
  const by = (what: string, name: unknown) =>
    [...(owner === '' ? [] : [owner]), `${what} ${typeof name === 'string' ? name : '(no name)'}`].join(', ');
  const at = (list: string, index: number, member: string) => `${fieldBelow(field, list)}[${index}].${member}`;
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

/** `opm render` prints such documents of a file-based catalog of operators: `olm.bundle`. */
export function isOfCatalog(schema: unknown): schema is string {
  return typeof schema === 'string' && schema.startsWith('olm.');
}

function imagesOfOperator(object: Json, { owner, field }: Place): PlacedPodImage[] {
  const related = objectsIn(object.relatedImages).map(([{ name, image }, index]) => ({
    what: ['related image', name].filter((word) => typeof word === 'string' && word !== '').join(' '),
    field: `${fieldBelow(field, 'relatedImages')}[${index}].image`,
    image,
  }));
  const bundleImages = object.schema === 'olm.bundle' ? [{ what: 'bundle', field: 'image', image: object.image }] : [];
  return [...bundleImages, ...related]
    .filter(({ image }) => typeof image === 'string' && image !== '')
    .map(({ what, image, ...at }) =>
      podImage({ owner, usedBy: owner === '' ? what : `${owner}, ${what}`, ...at }, image, undefined),
    );
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

export interface ManifestImage extends PodImage {
  readonly file: string;
}
