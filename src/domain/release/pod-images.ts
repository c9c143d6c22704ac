/** An image that a workload asks for. */
export interface PodImage {
  /** Who asks for it, as `Deployment shop/web, container app`. */
  readonly usedBy: string;
  /** The text in the manifest. Empty when missing; OpenShift's image triggers fill it in later. */
  readonly image: string;
  /**
   * `imagePullPolicy` of a container, `pullPolicy` of an image volume. Absent where the cluster
   * derives it from the tag.
   */
  readonly pullPolicy?: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Members of a pod's spec that hold containers (Kubernetes API v1, PodSpec). */
const CONTAINERS = [
  ['initContainers', 'init container'],
  ['containers', 'container'],
  ['ephemeralContainers', 'ephemeral container'],
] as const;

/** Deeper documents are no Kubernetes objects. */
const MAX_DEPTH = 64;

/**
 * The images of all pods that a Kubernetes object describes, in its order. A pod's spec is known by
 * its shape, a list of containers, wherever it lies: so this knows Pod, Deployment, CronJob and
 * List, and the kinds of operators as well. Nothing is found in texts, as in a ConfigMap.
 *
 * @param object what YAML or JSON was parsed to; anything.
 */
export function podImagesIn(object: unknown): PodImage[] {
  return walk(object, '', []);
}

function walk(value: unknown, owner: string, above: readonly unknown[]): PodImage[] {
  // With YAML anchors an object may contain itself.
  if (typeof value !== 'object' || value === null || above.length > MAX_DEPTH || above.includes(value)) return [];
  const path = [...above, value];
  if (Array.isArray(value)) return value.flatMap((item) => walk(item, owner, path));
  const object = value as Json;
  const name = ownerOf(object) ?? owner;
  return [...imagesOfSpec(object, name), ...Object.values(object).flatMap((member) => walk(member, name, path))];
}

/** A pod template has metadata but no kind, so the enclosing object is named. */
function ownerOf({ kind, metadata }: Json): string | undefined {
  if (typeof kind !== 'string' || !isObject(metadata)) return undefined;
  const name = [metadata.name, metadata.generateName].find((text) => typeof text === 'string');
  if (name === undefined) return undefined;
  return typeof metadata.namespace === 'string' ? `${kind} ${metadata.namespace}/${name}` : `${kind} ${name}`;
}

function imagesOfSpec(spec: Json, owner: string): PodImage[] {
  const by = (what: string, name: unknown) =>
    [...(owner === '' ? [] : [owner]), `${what} ${typeof name === 'string' ? name : '(no name)'}`].join(', ');
  const containers = CONTAINERS.flatMap(([member, what]) =>
    objectsIn(spec[member])
      .filter((container) => typeof container.name === 'string' || typeof container.image === 'string')
      .map(({ name, image, imagePullPolicy }) => podImage(by(what, name), image, imagePullPolicy)),
  );
  // Kubernetes API v1, ImageVolumeSource.
  const volumes = objectsIn(spec.volumes).flatMap(({ name, image }) =>
    isObject(image) ? [podImage(by('volume', name), image.reference, image.pullPolicy)] : [],
  );
  return [...containers, ...volumes];
}

function podImage(usedBy: string, image: unknown, pullPolicy: unknown): PodImage {
  return {
    usedBy,
    image: typeof image === 'string' ? image.trim() : '',
    ...(typeof pullPolicy === 'string' && pullPolicy !== '' && { pullPolicy }),
  };
}

function objectsIn(list: unknown): Json[] {
  return Array.isArray(list) ? list.filter(isObject) : [];
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
