import type { PlacedPodImage } from '../../domain/release/manifest-images.ts';

/** Units of Podman's systemd generator that name an image (podman-systemd.unit(5)). */
export const QUADLET = /\.(?:container|image|volume|kube)$/;

export function isQuadlet(file: string): boolean {
  return QUADLET.test(file);
}

interface QuadletImages {
  readonly images: readonly PlacedPodImage[];
  /** Paths of Kubernetes manifests, as they stand in the unit. */
  readonly manifests: readonly string[];
  /** Units that build their image, or have another unit pull it. */
  readonly others: readonly string[];
}

/**
 * Reads the images of a Quadlet unit: `Image=` of containers, images and volumes, and `Yaml=` of
 * `.kube`. Of an assignment that is repeated the last one counts, but for `Yaml=`.
 */
export function quadletImages(text: string): QuadletImages {
  const values = new Map<string, string>();
  const manifests: string[] = [];
  let section = '';
  for (const line of joinedLines(text)) {
    const [, name] = /^\[(.+)\]$/.exec(line) ?? [];
    if (name !== undefined) section = name;
    const [, key = '', value = ''] = /^([A-Za-z]+)\s*=\s*(.*)$/.exec(line) ?? [];
    if (section === 'Kube' && key === 'Yaml' && value !== '') manifests.push(unquoted(value));
    else if (/^(?:Container|Image|Volume)$/.test(section)) values.set(`${section}.${key}`, unquoted(value));
  }
  const images: PlacedPodImage[] = [];
  const others: string[] = [];
  for (const of of ['Container', 'Image', 'Volume']) {
    const image = values.get(`${of}.Image`) ?? '';
    if (/\.(?:image|build)$/.test(image)) others.push(image);
    else if (image !== '') {
      const pullPolicy = policyOf(values.get('Container.Pull'));
      images.push({ owner: '', usedBy: of.toLowerCase(), field: `[${of}] Image`, image, pullPolicy });
    }
  }
  return { images, manifests, others };
}

/** Comments are left out, and a line that ends in a backslash goes on in the next one. */
function joinedLines(text: string): string[] {
  const lines = text.split(/\r?\n/).filter((line) => !/^\s*[#;]/.test(line));
  return lines
    .join('\n')
    .replaceAll(/\\\n/g, ' ')
    .split('\n')
    .map((line) => line.trim());
}

function unquoted(value: string): string {
  return value.replace(/^(["'])(.*)\1$/, '$2');
}

/** Podman and Compose pull what is missing, whatever its tag is, unless they are told otherwise. */
function policyOf(pull: unknown): string {
  return pull === 'always' || pull === 'newer' ? 'Always' : 'IfNotPresent';
}

type Members = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether a document is a Compose file, or a list of images of an OpenShift-like release. */
export function isOtherList(value: unknown): boolean {
  return isObject(value) && (isCompose(value) || isReleaseList(value));
}

function isCompose({ services, kind }: Members): boolean {
  return kind === undefined && isObject(services) && Object.values(services).every(isObject);
}

/** MicroShift's `release-x86_64.json`: `{"release": {"base": …}, "images": {NAME: REF}}`. */
function isReleaseList({ release, images }: Members): boolean {
  return isObject(release) && isObject(images) && Object.values(images).every((one) => typeof one === 'string');
}

/** The images of the services of a Compose file, or of such a list. */
export function imagesOfList(value: unknown): PlacedPodImage[] {
  if (!isObject(value)) return [];
  if (isReleaseList(value)) {
    return Object.entries(value.images as Readonly<Record<string, string>>).map(([name, image]) => {
      return { owner: '', usedBy: name, field: `images.${name}`, image, pullPolicy: policyOf(undefined) };
    });
  }
  if (!isCompose(value)) return [];
  return Object.entries(value.services as Readonly<Record<string, Members>>).flatMap(([name, service]) => {
    const { image, pull_policy: pull } = service;
    if (typeof image !== 'string') return [];
    const place = { owner: '', usedBy: `service ${name}`, field: `services.${name}.image` };
    return [{ ...place, image: image.trim(), pullPolicy: policyOf(pull) }];
  });
}

/** The services of a Compose file that are built where it runs. */
export function servicesWithoutImage(value: unknown): string[] {
  if (!isObject(value) || !isCompose(value)) return [];
  const services = Object.entries(value.services as Readonly<Record<string, Members>>);
  return services.filter(([, { image }]) => typeof image !== 'string').map(([name]) => name);
}
