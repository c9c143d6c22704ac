import { type Digest, isDigest } from '../domain/model/digest.ts';
import {
  formatReference,
  hasUpperCaseHost,
  parseReference,
  type Reference,
  withRegistry,
} from '../domain/model/reference.ts';
import { isImagePlaceholder } from '../domain/release/manifest-images.ts';
import { bundleError } from './bundle-error.ts';
import { limits } from './limits.ts';

/** `name` is `org.opencontainers.image.ref.name`. */
export type LayoutSelector =
  | { readonly kind: 'only' }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'digest'; readonly digest: Digest }
  | { readonly kind: 'position'; readonly position: number };

/** `skopeo` takes any transport of containers-transports(5). */
export type ImageSource =
  | {
      readonly kind: 'layout';
      readonly directory: string;
      readonly selector: LayoutSelector;
      /** The layout is ours: its layers may be moved out. Default false. */
      readonly isDisposable?: boolean;
      /** The name in errors when the path of the layout is ours. Default `oci:` and the path. */
      readonly place?: string;
    }
  | { readonly kind: 'skopeo'; readonly location: string };

export interface ImageRequest {
  readonly reference: Reference;
  readonly source: ImageSource;
  /** For example `etcd`. Default: the last part of the repository's path, if unique. */
  readonly component?: string;
  /** Takes the place of that default, if unique. */
  readonly proposedComponent?: string | undefined;
  readonly pin?: boolean;
  /** Whether the image may come from an archive instead of its source. Default false. */
  readonly isReplaceable?: boolean;
  /** The origin in errors, for example `images.txt:7`. Absent for the command line. */
  readonly origin?: string;
}

/**
 * Reads the argument of `--image`: `[COMPONENT=]REF[=SOURCE]`. REF has a tag, a digest or both;
 * SOURCE as in containers-transports(5), by default `docker://REF`.
 *
 * @param shortNames the registry of a REF without one; without it such a REF is a fault
 * @throws AppError `bundle/option`, `domain/reference`
 */
export function parseImageRequest(text: string, shortNames?: string): ImageRequest {
  const [first = '', ...others] = text.split('=');
  const isNamed = !(shortNames === undefined ? /\// : /[/:@]/).test(first) && others.length > 0;
  const [reference = '', ...source] = isNamed ? others : [first, ...others];
  if (isNamed && !/^[a-z0-9][a-z0-9._-]*$/.test(first)) {
    throw bundleError('bundle/option', `component '${first}' must be a short name such as etcd (a-z 0-9 . _ -)`);
  }
  if (isImagePlaceholder(reference)) {
    throw bundleError('bundle/option', `'${reference}' is a placeholder, not an image: name the image itself`);
  }
  const parsed = parseReference(shortNames === undefined ? reference : withRegistry(reference, shortNames));
  if (hasUpperCaseHost(reference)) {
    const why = 'Container runtimes take a name with capital letters in its registry for another one';
    throw bundleError('bundle/option', `${reference} must be written as ${formatReference(parsed)}. ${why}`);
  }
  return {
    reference: parsed,
    ...(source.length === 0
      ? { source: fromRegistry(parsed), isReplaceable: true }
      : { source: parseImageSource(source.join('=')) }),
    ...(isNamed && { component: first }),
  };
}

/** The component that the name of an image in the list of a release makes, if any. */
export function componentNamed(name: string): string | undefined {
  const component = name
    .toLowerCase()
    .replace(/[^a-z0-9._-]/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, limits.nameBytes);
  return component || undefined;
}

/** Reads `oci:DIR[:NAME|@DIGEST|:@POSITION]`, or another transport for skopeo. */
function parseImageSource(text: string): ImageSource {
  if (!/^[a-z][a-z0-9-]*:./.test(text)) {
    const message = `image source '${text}' must be a transport and a location, such as oci:DIR:TAG or docker://REFERENCE`;
    throw bundleError('bundle/option', message);
  }
  if (!text.startsWith('oci:')) return { kind: 'skopeo', location: text };
  const path = text.slice('oci:'.length);
  const byDigest = /^(.+?):?@(sha256:[0-9a-f]{64})$/.exec(path);
  if (byDigest?.[1] !== undefined && byDigest[2] !== undefined && isDigest(byDigest[2])) {
    return { kind: 'layout', directory: byDigest[1], selector: { kind: 'digest', digest: byDigest[2] } };
  }
  if (/@[a-z0-9]+:[0-9a-f]{32,}$/.test(path)) {
    const message = `image source '${text}': bundles and nodes know no other digests than sha256:<64 lower-case hex digits>`;
    throw bundleError('bundle/option', message);
  }
  const colon = path.indexOf(':');
  if (colon < 0) return { kind: 'layout', directory: path, selector: { kind: 'only' } };
  return { kind: 'layout', directory: path.slice(0, colon), selector: parseSelector(path.slice(colon + 1), text) };
}

function parseSelector(text: string, source: string): LayoutSelector {
  if (text === '') throw bundleError('bundle/option', `image source '${source}' has no name after the last colon`);
  const position = /^@([0-9]{1,6})$/.exec(text)?.[1];
  return position === undefined ? { kind: 'name', name: text } : { kind: 'position', position: Number(position) };
}

/** `docker://` takes a tag or a digest, not both. */
export function fromRegistry(reference: Reference): ImageSource {
  const { repository, tag, digest } = reference;
  const wanted = digest !== undefined ? { repository, digest } : { repository, ...(tag !== undefined && { tag }) };
  return { kind: 'skopeo', location: `docker://${formatReference(wanted)}` };
}
