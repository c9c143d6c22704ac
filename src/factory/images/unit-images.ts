import { componentNamed } from '../../bundle/image-request.ts';
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
  /** Further needs: images that other units build or pull, and paths with a specifier. */
  readonly others: readonly string[];
}

/**
 * Reads the images of a Quadlet unit: `Image=` of containers, images and volumes, `Mount=` of type
 * image, and `Yaml=` of `.kube`. The last `Image=` counts.
 */
export function quadletImages(text: string): QuadletImages {
  const values = new Map<string, string>();
  const mounts: string[] = [];
  const manifests: string[] = [];
  let section = '';
  for (const line of joinedLines(text)) {
    const [, name] = /^\[(.+)\]$/.exec(line) ?? [];
    if (name !== undefined) section = name;
    const [, key = '', value = ''] = /^([A-Za-z]+)\s*=\s*(.*)$/.exec(line) ?? [];
    if (section === 'Kube' && key === 'Yaml' && value !== '') manifests.push(unquoted(value));
    else if (section === 'Container' && key === 'Mount') mounts.push(...sourcesOf(unquoted(value)));
    else values.set(`${section}.${key}`, unquoted(value));
  }
  const named = ['Container', 'Image', 'Volume'].flatMap((of) => {
    const image = values.get(`${of}.Image`) ?? '';
    return image === '' ? [] : [{ image, usedBy: of.toLowerCase(), field: `[${of}] Image` }];
  });
  const pullPolicy = policyOf(values.get('Container.Pull') ?? values.get('Image.Policy'));
  const all = [...named, ...mounts.map((image) => ({ image, usedBy: 'mount', field: '[Container] Mount' }))];
  const isOther = ({ image }: { readonly image: string }) => /\.(?:image|build)$/.test(image);
  return {
    images: all.filter((one) => !isOther(one)).map((one) => ({ owner: '', pullPolicy, ...one })),
    manifests: manifests.filter((path) => !path.includes('%')),
    others: [
      ...all.filter(isOther).map(({ image }) => `its image is that of the unit ${image}, which has to be given too`),
      ...manifests
        .filter((path) => path.includes('%'))
        .map((path) => `Yaml=${path} has a specifier, so the manifest has to be given too`),
    ],
  };
}

/** `type=image,source=IMAGE,destination=/x`; `src` is short for `source`. */
function sourcesOf(mount: string): string[] {
  const members = new Map(mount.split(',').map((member) => [member.split('=')[0] ?? '', member.split('=')[1] ?? '']));
  const source = members.get('source') ?? members.get('src');
  return members.get('type') === 'image' && source !== undefined ? [source] : [];
}

/** Comments are left out, and a backslash at the end of a line joins the next one. */
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

/** Podman and Compose pull what is missing, whatever its tag is, unless `pull` says otherwise. */
function policyOf(pull: unknown): string {
  const isAlways = typeof pull === 'string' && /^(?:always|newer|daily|weekly|every_.*)$/.test(pull);
  return isAlways ? 'Always' : 'IfNotPresent';
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
  return (
    kind === undefined && isObject(services) && Object.values(services).every((one) => one === null || isObject(one))
  );
}

/** MicroShift's `release-x86_64.json`: `{"release": {"base": …}, "images": {NAME: REF}}`. */
function isReleaseList({ release, images }: Members): boolean {
  return isObject(release) && isObject(images) && Object.values(images).every((one) => typeof one === 'string');
}

export interface ListedImage extends PlacedPodImage {
  /** The component that its name in the list makes. */
  readonly component?: string | undefined;
}

/** The images of the services of a Compose file, or of such a list. */
export function imagesOfList(value: unknown): ListedImage[] {
  if (!isObject(value)) return [];
  if (isReleaseList(value)) {
    return Object.entries(value.images as Readonly<Record<string, string>>).map(([name, image]) => {
      const place = { owner: '', usedBy: name, field: `images.${name}` };
      return { ...place, image, pullPolicy: policyOf(undefined), component: componentNamed(name) };
    });
  }
  if (!isCompose(value)) return [];
  return servicesOf(value).flatMap(([name, { image, pull_policy: pull }]) => {
    if (typeof image !== 'string') return [];
    const place = { owner: '', usedBy: `service ${name}`, field: `services.${name}.image` };
    return [{ ...place, image: image.trim(), pullPolicy: policyOf(pull) }];
  });
}

function servicesOf({ services }: Members): [name: string, service: Members][] {
  return Object.entries(services as Readonly<Record<string, Members | null>>).map(([name, one]) => [name, one ?? {}]);
}

/** Further needs of a Compose file: images that are built or named elsewhere, and other files. */
export function composeNotes(value: unknown): string[] {
  if (!isObject(value) || !isCompose(value)) return [];
  const services = servicesOf(value).filter(([, { image }]) => typeof image !== 'string');
  const hasMore = value.include !== undefined || services.some(([, service]) => service.extends !== undefined);
  return [
    ...services.map(([name]) => `service ${name} names no image here, so none was taken: give its image with --image`),
    ...(hasMore ? ["it needs other files: give what 'docker compose config' prints"] : []),
  ];
}
