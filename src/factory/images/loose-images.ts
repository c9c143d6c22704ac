import { parseReference, withRegistry } from '../../domain/model/reference.ts';
import {
  fieldBelow,
  isImagePattern,
  type Json,
  MAX_DEPTH,
  ownerOf,
  type Place,
  placedPodImagesIn,
} from '../../domain/release/manifest-images.ts';

/** A text that looks like an image in a place from which Kubernetes starts none. */
interface LooseImage {
  /** For example `Prometheus shop/main`. It is empty if no enclosing object has kind and name. */
  readonly owner: string;
  readonly field: string;
  readonly image: string;
}

/** A repository has at most 255 bytes, a tag 128. */
const MAX_WORD = 512;
/** `image`, `proxyImage`, `SIDECAR_IMAGE`, `--engine-image`, `imageName`. */
const IMAGE_KEY = /image(?:Name)?$/i;
/** Documents within documents, as in a ConfigMap. */
const MAX_NESTED = 2;

/**
 * What may be images of a Kubernetes object outside of pods: operators start images that a custom
 * resource, an argument or an environment variable names. That is
 *
 * - the value of a key, flag or variable whose name ends in `image` or `imageName`;
 * - a word with a tag or a digest in any text that names a registry or a path, or any image where
 *   the name of the key has `image` in it;
 * - `repository` with `image`, `tag` or `version` in one map.
 *
 * Patterns, `status`, and descriptions in the schemas of custom resources are skipped.
 *
 * @param object parsed YAML or JSON
 * @param parse what a text within it holds, when it is YAML or JSON itself
 */
export function looseImagesIn(object: unknown, parse: (text: string) => readonly unknown[] = () => []): LooseImage[] {
  const inPods = new Set(placedPodImagesIn(object).map(placeName));
  const found = new Finder(parse).find(object, { owner: '', field: '', key: '', nested: 0, isSchema: false }, []);
  return found.filter((image) => !inPods.has(placeName(image)));
}

function placeName({ owner, field }: Place): string {
  return JSON.stringify([owner, field]);
}

interface KeyedPlace extends Place {
  readonly key: string;
  readonly nested: number;
  /** Whether it is within a CustomResourceDefinition. */
  readonly isSchema: boolean;
}

class Finder {
  constructor(private readonly parse: (text: string) => readonly unknown[]) {}

  find(value: unknown, place: KeyedPlace, above: readonly unknown[]): LooseImage[] {
    const { field, key } = place;
    if (typeof value === 'string') return this.inText(value, place);
    // An object with YAML anchors may contain itself.
    if (typeof value !== 'object' || value === null || above.length > MAX_DEPTH || above.includes(value)) return [];
    const path = [...above, value];
    if (Array.isArray(value)) {
      return value.flatMap((item, at) =>
        this.find(item, { ...place, key: flagIn(value[at - 1]) ?? key, field: `${field}[${at}]` }, path),
      );
    }
    return this.inObject(value as Json, place, path);
  }

  private inObject(object: Json, place: KeyedPlace, path: readonly unknown[]): LooseImage[] {
    const named = ownerOf(object);
    const isSchema = place.isSchema || object.kind === 'CustomResourceDefinition';
    const [owner, field] = named === undefined ? [place.owner, place.field] : [named, ''];
    const image = joined(object);
    const found = image === undefined ? [] : [{ owner, field: fieldBelow(field, 'repository'), image }];
    for (const [name, member] of Object.entries(object)) {
      if (named !== undefined && name === 'status') continue;
      if (isSchema && name === 'description' && typeof member === 'string') continue;
      if (image !== undefined && name === 'image') continue;
      const key = isValueOf(name) ? (textOf(object.name) ?? place.key) : name;
      found.push(...this.find(member, { ...place, owner, key, isSchema, field: fieldBelow(field, name) }, path));
    }
    return found;
  }

  private inText(text: string, place: KeyedPlace): LooseImage[] {
    const { owner, field, key, nested } = place;
    const found = imagesInText(text, key).map((image) => ({ owner, field, image }));
    if (nested === MAX_NESTED || !/[\n{[]/.test(text) || !/image|repository/i.test(text)) return found;
    const within = { ...place, owner: '', field: '', key: '', nested: nested + 1 };
    const documents = this.parse(text).filter((document) => typeof document === 'object' && document !== null);
    if (documents.length === 0) return found;
    return documents
      .flatMap((document) => this.find(document, within, []))
      .map((inner) => ({ owner, field: placeIn(field, inner), image: inner.image }));
  }
}

function placeIn(outer: string, { owner, field }: Place): string {
  return [outer, owner, field].filter((part) => part !== '').join(', ');
}

/** In `env`, parameters and schemas, the name of the value is beside it or above it. */
function isValueOf(name: string): boolean {
  return name === 'value' || name === 'default';
}

function flagIn(item: unknown): string | undefined {
  return typeof item === 'string' ? /^--?([\w.-]+)$/.exec(item)?.[1] : undefined;
}

function textOf(value: unknown): string | undefined {
  return (typeof value === 'string' && value !== '') || typeof value === 'number' ? `${value}` : undefined;
}

/** The limit for words with `=` between them. */
const MAX_WORDS = 8 * MAX_WORD;
/** Separates images in longer texts. */
const BETWEEN = /[\s,;"'`()<>{}]+/;
/** A line of YAML, or of settings, whose key ends in `image`. */
const IMAGE_LINE =
  /^[ \t"'-]{0,200}([\w.-]{0,200}image(?:Name)?)["']?[ \t]*[:=][ \t]*["']?([\w./:@-]+)["']?,?[ \t]*(?:#.*)?$/gim;

/** Each once. */
export function imagesInText(text: string, key = ''): string[] {
  const whole = text.trim();
  if (isImage(whole, key)) return [bare(whole)];
  const found = new Set<string>();
  for (const word of whole.split(BETWEEN).filter(({ length }) => length <= MAX_WORDS)) {
    const parts = word.replace(/[.:]+$/, '').split('=');
    parts.forEach((part, at) => {
      if (isImage(part, at === 0 ? '' : (parts[at - 1] ?? '')) || isTagged(part, key)) found.add(bare(part));
    });
  }
  for (const [, name = '', image = ''] of text.matchAll(IMAGE_LINE)) if (isImage(image, name)) found.add(bare(image));
  return [...found];
}

/** Removes transports of containers-transports(5), and of charts. */
function bare(text: string): string {
  return text.replace(/^(?:docker|oci):\/\//, '');
}

function isImage(text: string, key: string): boolean {
  return isTagged(text, key) || (IMAGE_KEY.test(key) && !FILE.test(text) && parsed(text) !== undefined);
}

/** Names of disks and pictures end like this. */
const FILE = /\.(?:qcow2|raw|iso|img|vmdk|vhdx?|ova|png|jpe?g|gif|svg|webp|ico|tar|gz|xz|zst|efi)$/i;
/** Taints are no images: `node-role.kubernetes.io/master:NoSchedule`. */
const EFFECT = /:(?:NoSchedule|NoExecute|PreferNoSchedule)$/;

function isTagged(text: string, key: string): boolean {
  if (!/[:@]/.test(text) || !(text.includes('/') || /image/i.test(key)) || EFFECT.test(text)) return false;
  const { tag, digest } = parsed(text) ?? {};
  return tag !== undefined || digest !== undefined;
}

function parsed(text: string) {
  if (text.length > MAX_WORD || isImagePattern(text) || !/^[\w.\-/:@[\]]+$/.test(bare(text))) return undefined;
  try {
    return parseReference(withRegistry(bare(text), 'docker.io'));
  } catch {
    return undefined;
  }
}

/** The forms of charts and operators: `{registry?, repository, image?, tag | version}`. */
function joined({ registry, repository, image, tag, version, digest }: Json): string | undefined {
  const [path, mark] = [textOf(image), textOf(tag) ?? textOf(version) ?? textOf(digest)];
  if (typeof repository !== 'string' || repository === '' || (path === undefined && mark === undefined))
    return undefined;
  // A whole reference in `image` is the image.
  if (path !== undefined && withRegistry(path, '') === path) return undefined;
  const name = [textOf(registry), repository, path].filter((part) => part !== undefined).join('/');
  const text = mark === undefined ? name : `${name}${mark.startsWith('sha256:') ? '@' : ':'}${mark}`;
  return parsed(text) === undefined ? undefined : text;
}
