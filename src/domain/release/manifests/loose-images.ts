import { parseReference } from '../../model/reference.ts';
import { fieldBelow, ownerOf, placedPodImagesIn } from '../pod-images.ts';

/** A text that looks like an image, where Kubernetes itself starts none. */
export interface LooseImage {
  /** As `Prometheus shop/main`. Empty where no enclosing object has kind and name. */
  readonly owner: string;
  readonly field: string;
  readonly image: string;
}

type Json = Readonly<Record<string, unknown>>;

/** Deeper documents are no Kubernetes objects. */
const MAX_DEPTH = 64;
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
  return walk(object, { owner: '', field: '', key: '' }, []).filter((found) => !inPods.has(placeName(found)));
}

function placeName({ owner, field }: Pick<LooseImage, 'owner' | 'field'>): string {
  return JSON.stringify([owner, field]);
}

interface Place {
  readonly owner: string;
  readonly field: string;
  readonly key: string;
}

function walk(value: unknown, place: Place, above: readonly unknown[]): LooseImage[] {
  const { owner, field, key } = place;
  if (typeof value === 'string') {
    const image = imageIn(value, key);
    return image === undefined ? [] : [{ owner, field, image }];
  }
  if (typeof value !== 'object' || value === null || above.length > MAX_DEPTH || above.includes(value)) return [];
  const path = [...above, value];
  if (Array.isArray(value)) {
    return value.flatMap((item, at) => walk(item, { owner, key, field: `${field}[${at}]` }, path));
  }
  const object = value as Json;
  if (object.kind === 'CustomResourceDefinition') return [];
  const parts = IMAGE_KEY.test(key) ? joined(object) : undefined;
  if (parts !== undefined) return [{ owner, field, image: parts }];
  const own = ownerOf(object);
  return Object.entries(object)
    .filter(([name]) => own === undefined || name !== 'status')
    .flatMap(([name, member]) =>
      walk(member, { owner: own ?? owner, key: name, field: fieldBelow(own === undefined ? field : '', name) }, path),
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
