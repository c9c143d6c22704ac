import { readFile, stat } from 'node:fs/promises';
import { type Digest, isDigest } from '../../../domain/model/digest.ts';
import { formatReference, parseReference, type Reference, withRegistry } from '../../../domain/model/reference.ts';
import { AppError, FaultList, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { decodeText } from '../../../platform/plain-text.ts';
import { bundleError } from '../../bundle-error.ts';

const MAX_FILE_BYTES = 4 * 1024 * 1024;

/**
 * At most 4 MiB.
 *
 * @throws AppError `bundle/option` (`reject`) with file and line; `bundle/source` when it can't be
 *   read
 */
export async function readImagesFile(path: string, signal: AbortSignal, shortNames?: string): Promise<ImageRequest[]> {
  try {
    const { size } = await stat(path);
    if (size > MAX_FILE_BYTES) {
      throw bundleError('bundle/option', `${path} has ${size} bytes, and ${MAX_FILE_BYTES} are allowed`);
    }
    return parseImagesFile(textOf(await readFile(path, { signal }), path), path, shortNames);
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof AppError || systemCodeOf(cause) === undefined) throw cause;
    throw bundleError('bundle/source', `images file ${path} can't be read: ${reasonOf(cause)}`, { cause });
  }
}

function textOf(bytes: Buffer, path: string): string {
  try {
    return decodeText(bytes, true);
  } catch (cause) {
    throw bundleError('bundle/option', `images file ${path} is not UTF-8 text: save it as such`, { cause });
  }
}

/**
 * Parses a list of images. A line has the argument of `--image`, then options (`pin=false`),
 * separated by spaces. `#` at the start or after a space begins a comment.
 *
 * @param shortNames the registry of names without one; without it they are faults
 * @throws AppError `bundle/option` (`reject`) as `FILE:LINE: why`
 */
export function parseImagesFile(text: string, path: string, shortNames?: string): ImageRequest[] {
  const lines = text.replace(/^\ufeff/, '').split('\n');
  const faults = new FaultList();
  const images = lines.flatMap((line, at) => {
    const words = line.replace(/(^|\s)#.*$/s, '').trim();
    try {
      return words === '' ? [] : [parseLine(words.split(/\s+/), `${path}:${at + 1}`, shortNames)];
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      faults.add(error);
      return [];
    }
  });
  faults.throwAny();
  return images;
}

function parseLine(
  [image = '', ...settings]: readonly string[],
  origin: string,
  shortNames: string | undefined,
): ImageRequest {
  try {
    return { ...parseImageRequest(image, shortNames), ...parsePin(settings), origin };
  } catch (cause) {
    if (!(cause instanceof AppError)) throw cause;
    throw bundleError('bundle/option', `${origin}: ${cause.message}`, { cause });
  }
}

function parsePin(settings: readonly string[]): { pin?: boolean } {
  const [first, second] = settings;
  const wrong = settings.find((setting) => !/^pin=(?:true|false)$/.test(setting));
  if (wrong !== undefined) {
    throw bundleError(
      'bundle/option',
      `'${wrong}' is not an option of an image; the options are pin=false and pin=true`,
    );
  }
  if (second !== undefined) throw bundleError('bundle/option', `'${second}': pin is given twice`);
  return first === undefined ? {} : { pin: first === 'pin=true' };
}

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
      /** What errors call the layout when its path is ours. Default `oci:` and the directory. */
      readonly place?: string;
    }
  | { readonly kind: 'skopeo'; readonly location: string };

export interface ImageRequest {
  readonly reference: Reference;
  readonly source: ImageSource;
  /** Such as `etcd`. Default: the last part of the repository's path, if unique. */
  readonly component?: string;
  /** Default true. */
  readonly pin?: boolean;
  /** An archive with the image is taken instead of its source. Default false. */
  readonly isReplaceable?: boolean;
  /** Such as `images.txt:7`, for errors. Absent for the command line. */
  readonly origin?: string;
}

/**
 * Reads the argument of `--image`: `[COMPONENT=]REF[=SOURCE]`. REF is `registry/repo` with a tag, a
 * digest or both; SOURCE as in containers-transports(5), by default `docker://REF`.
 *
 * @param shortNames the registry of a REF without one, which then needs a tag or digest before a
 *   SOURCE; without it such a REF is a fault
 * @throws AppError `bundle/option`, `domain/reference` (`reject`)
 */
export function parseImageRequest(text: string, shortNames?: string): ImageRequest {
  const [first = '', ...rest] = text.split('=');
  const isNamed = !(shortNames === undefined ? /\// : /[/:@]/).test(first) && rest.length > 0;
  const [reference = '', ...source] = isNamed ? rest : [first, ...rest];
  if (isNamed && !/^[a-z0-9][a-z0-9._-]*$/.test(first)) {
    throw bundleError('bundle/option', `component '${first}' must be a short name such as etcd (a-z 0-9 . _ -)`);
  }
  const parsed = parseReference(shortNames === undefined ? reference : withRegistry(reference, shortNames));
  return {
    reference: parsed,
    source: source.length === 0 ? fromRegistry(parsed) : parseImageSource(source.join('=')),
    ...(isNamed && { component: first }),
  };
}

/** Errors of `act` begin with file and line of the request; code and disposition stay. */
export async function withOrigin<T>(origin: string | undefined, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (cause) {
    if (origin === undefined || !(cause instanceof AppError)) throw cause;
    const { code, disposition, message } = cause;
    throw new AppError({ code, disposition, message: `${origin}: ${message}`, cause });
  }
}

/** Reads `oci:DIR[:NAME|@DIGEST|:@POSITION]`, or another transport for skopeo. */
function parseImageSource(text: string): ImageSource {
  if (!/^[a-z][a-z0-9-]*:./.test(text)) {
    throw bundleError(
      'bundle/option',
      `image source '${text}' must be a transport and a location, such as oci:DIR:TAG or docker://REFERENCE`,
    );
  }
  if (!text.startsWith('oci:')) return { kind: 'skopeo', location: text };
  const path = text.slice('oci:'.length);
  const byDigest = /^(.+?):?@(sha256:[0-9a-f]{64})$/.exec(path);
  if (byDigest?.[1] !== undefined && byDigest[2] !== undefined && isDigest(byDigest[2])) {
    return { kind: 'layout', directory: byDigest[1], selector: { kind: 'digest', digest: byDigest[2] } };
  }
  if (/@[a-z0-9]+:[0-9a-f]{32,}$/.test(path)) {
    throw bundleError(
      'bundle/option',
      `image source '${text}': bundles and nodes know no other digests than sha256:<64 lower-case hex digits>`,
    );
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
