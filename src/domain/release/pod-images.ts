export interface PodImage {
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

export function fieldBelow(field: string, key: string): string {
  return field === '' ? key : `${field}.${key}`;
}

/** As `Deployment shop/web`. A pod template has no kind, so the enclosing object is named. */
export function ownerOf({ kind, metadata }: Json): string | undefined {
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
