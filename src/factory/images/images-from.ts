import { readdir, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import {
  chartAdvice,
  type ManifestDocument,
  parseManifestDocuments,
} from '../../bundle/documents/kubernetes-manifest.ts';
import { fromRegistry, type ImageRequest } from '../../bundle/image-request.ts';
import { formatReference, isCanonicalReference, parseReference, withRegistry } from '../../domain/model/reference.ts';
import {
  isImagePattern,
  isImagePlaceholder,
  isOfCatalog,
  type ManifestImage,
  placedPodImagesIn,
} from '../../domain/release/manifest-images.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { decodeText, oneLine } from '../../platform/plain-text.ts';
import { sourceError } from './layout-source.ts';
import { looseImagesIn } from './loose-images.ts';
import {
  kustomizedBy,
  kustomizeNotes,
  MAX_MANIFEST_BYTES,
  type ManifestFiles,
  manifestFiles,
  parseManifest,
  readManifestText,
} from './manifests.ts';
import type { NamePattern } from './name-pattern.ts';
import {
  composeNotes,
  imagesOfList,
  isOtherList,
  isQuadlet,
  type ListedImage,
  QUADLET,
  quadletImages,
} from './unit-images.ts';

interface Untaken {
  readonly origin: string;
  readonly image: string;
}

export interface ImagesFrom {
  /** Each image once, in order, from the registry in its name. */
  readonly requests: readonly ImageRequest[];
  /** Every image of a pod. */
  readonly used: readonly ManifestImage[];
  /** Texts outside pods that look like images, each once. */
  readonly untaken: readonly Untaken[];
  /** Notes about other documents, placeholders, repeated keys and files left out. */
  readonly notes: readonly string[];
  /** Placeholders, and images that are excepted. */
  readonly leftOut: number;
}

const STDIN = 'standard input';
const MAX_FAULTS = 20;
/** A longer text within a document is searched for words only. */
const MAX_NESTED_CHARS = 1024 * 1024;
/** Most charts mean this registry by a short name. */
const DOCKER = 'docker.io';

interface FromRequest {
  /** A folder, a file, or `-` for standard input. */
  readonly source: string;
  /** The registry of names without one; without it they are faults. */
  readonly shortNames?: string | undefined;
  /** Patterns of names to leave out, as they are written or in full. */
  readonly except?: readonly NamePattern[];
}

/**
 * The images of every pod in manifests and rendered charts (YAML or JSON), and those that bundles
 * of operators list.
 *
 * @throws AppError `bundle/source` when it can't be read, is malformed or has no pod with an image;
 *   `bundle/option` with all references that are malformed or short
 */
export async function readImagesFrom(
  { source, shortNames, except = [] }: FromRequest,
  stdin: () => AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<ImagesFrom> {
  const { files, kustomized } = source === '-' ? { files: [STDIN], kustomized: [] } : await filesOf(source, signal);
  const kustomize = kustomizeNotes(kustomized);
  const read = async (file: string): Promise<ImagesFrom> => {
    if (isQuadlet(file)) return readQuadlet(file, file !== source, { shortNames, except }, signal);
    const text = await (source === '-' ? readAll(stdin(), signal) : readManifestText(file, signal));
    const isKustomized = kustomized.some((folder) => file.startsWith(`${folder}/`));
    return imagesOf(text, file, { shortNames, except, isInFolder: file !== source && source !== '-', isKustomized });
  };
  try {
    const found: ImagesFrom[] = [];
    for (const file of files) found.push(await read(file));
    const all = merged(found);
    if (all.requests.length > 0 || all.leftOut > 0) return { ...all, notes: [...kustomize, ...all.notes] };
    const where = source === '-' ? `${STDIN}: did the command before the pipe fail?` : source;
    throw bundleError('bundle/source', oneLine(`no pod with an image is in ${where}${elsewhere(all.untaken)}`));
  } catch (error) {
    if (!(error instanceof AppError) || kustomize.length === 0) throw error;
    throw error.reworded(`${error.message}; ${kustomize.join('; ')}`);
  }
}

function elsewhere(untaken: readonly Untaken[]): string {
  const images = untaken.slice(0, MAX_FAULTS).map(({ origin, image }) => `${image} (${origin})`);
  if (images.length === 0) return '';
  const more = untaken.length > MAX_FAULTS ? `, and ${untaken.length - MAX_FAULTS} more` : '';
  return `; outside of pods there are ${images.join(', ')}${more}: give those that are needed with --image`;
}

/** One sentence for each image outside pods that is not requested. */
export function untakenNotes({ untaken }: ImagesFrom, requests: readonly ImageRequest[]): string[] {
  // A name without a tag gets one from another place.
  const known = new Set(requests.flatMap(({ reference }) => [formatReference(reference), reference.repository]));
  return untaken
    .filter(({ image }) => !known.has(comparable(image)))
    .map(({ origin, image }) =>
      oneLine(
        `${origin}: ${image} looks like an image, but stands outside of a pod, and was not taken: add it with --image if it is needed`,
      ),
    );
}

export function merged(found: readonly ImagesFrom[]): ImagesFrom {
  return {
    requests: firstOfEach(
      found.flatMap(({ requests }) => requests),
      ({ reference }) => formatReference(reference),
    ),
    used: found.flatMap(({ used }) => used),
    untaken: firstOfEach(
      found.flatMap(({ untaken }) => untaken),
      ({ image }) => comparable(image),
    ),
    notes: found.flatMap(({ notes }) => notes),
    leftOut: found.reduce((sum, { leftOut }) => sum + leftOut, 0),
  };
}

function imagesOf(
  text: string,
  file: string,
  {
    shortNames,
    except,
    isInFolder,
    isKustomized,
  }: Required<Omit<FromRequest, 'source'>> & { readonly isInFolder: boolean; readonly isKustomized: boolean },
): ImagesFrom {
  const { documents: all, notes } = parseManifest(text, file, isInFolder);
  const documents = all.filter(({ value }) => value !== null && value !== undefined);
  const found = documents.flatMap((document) =>
    [...placedPodImagesIn(document.value), ...imagesOfList(document.value)].map((image) => ({
      image,
      origin: originOf(file, document, image),
    })),
  );
  const taken = take(found, file, { shortNames, except });
  return {
    ...taken,
    untaken: documents.flatMap((document) =>
      looseImagesIn(document.value, documentsIn)
        .filter(({ image }) => !isExcepted(image, { shortNames, except }))
        .map((loose) => ({ image: loose.image, origin: originOf(file, document, loose) })),
    ),
    notes: [
      ...notes,
      ...taken.notes,
      ...documents.flatMap(({ value }) => composeNotes(value).map((note) => oneLine(`${file}: ${note}`))),
      ...documents.flatMap((document) =>
        isKustomized || isKnownObject(document.value) ? [] : [foreignNote(file, document)],
      ),
    ],
  };
}

type Names = Required<Pick<FromRequest, 'shortNames' | 'except'>>;

function isExcepted(image: string, { shortNames, except }: Names): boolean {
  const names = [image, comparable(shortNames === undefined ? image : withRegistry(image, shortNames))];
  return except.some((pattern) => names.some((name) => pattern.fits(name)));
}

/**
 * Reads a unit with its drop-ins, and the Kubernetes manifests that it names beside it. In a
 * folder, other files may have such a name, for example images of disks: they are left out.
 */
async function readQuadlet(file: string, isInFolder: boolean, names: Names, signal: AbortSignal): Promise<ImagesFrom> {
  const text = await quadletText(file, isInFolder, signal);
  const { images, manifests, others } = quadletImages(text);
  const taken = take(
    images.map((image) => ({ image, origin: `${file}: ${image.field}` })),
    file,
    names,
  );
  const notes = others.map((what) => `${file}: ${what}`);
  const found: ImagesFrom[] = [{ ...taken, notes: [...taken.notes, ...notes] }];
  for (const path of manifests) {
    const manifest = resolve(dirname(file), path);
    const choice = { ...names, isInFolder: false, isKustomized: false };
    found.push(imagesOf(await readManifestText(manifest, signal), manifest, choice));
  }
  return merged(found);
}

/** The last of several assignments counts, so drop-ins come last. */
async function quadletText(file: string, isInFolder: boolean, signal: AbortSignal): Promise<string> {
  try {
    const dropIns = await readdir(`${file}.d`).catch(() => []);
    const parts = dropIns.filter((name) => name.endsWith('.conf')).sort();
    const all = [await readManifestText(file, signal)];
    for (const name of parts) all.push(await readManifestText(join(`${file}.d`, name), signal));
    return all.join('\n');
  } catch (error) {
    if (error instanceof AppError && isInFolder) return '';
    throw error;
  }
}

interface FoundImage {
  readonly image: ListedImage;
  readonly origin: string;
}

/** Leaves out placeholders, and images that are excepted. */
function take(found: readonly FoundImage[], file: string, { shortNames, except }: Names): ImagesFrom {
  const wanted = found.filter(({ image: { image } }) => image === '' || !isExcepted(image, { shortNames, except }));
  const isPlaceholder = ({ image: { image } }: FoundImage) => isImagePattern(image) || isImagePlaceholder(image);
  const placeholders = wanted.filter(isPlaceholder);
  const placed = wanted
    .filter((one) => !isPlaceholder(one))
    .map(({ image, origin }) => ({
      image: shortNames === undefined ? image : { ...image, image: withRegistry(image.image, shortNames) },
      origin,
    }));
  // Another warning reports a container without an image.
  return {
    requests: requestsOf(placed.filter(({ image: { image } }) => image !== '')),
    used: placed.map(({ image: { owner: _, field: __, component: ___, ...image } }) => ({ ...image, file })),
    untaken: [],
    notes: placeholders.map(({ image: { image }, origin }) => placeholderNote(image, origin)),
    leftOut: found.length - placed.length,
  };
}

function placeholderNote(image: string, origin: string): string {
  const advice = chartAdvice(image) ?? `add the image that takes its place with --image, or say --except '${image}'`;
  return oneLine(
    `${origin}: ${JSON.stringify(image)} is a placeholder or a pattern, not an image, and was not taken: ${advice}`,
  );
}

function requestsOf(placed: readonly FoundImage[]): ImageRequest[] {
  const faults: string[] = [];
  let isShort = false;
  const requests = placed.flatMap(({ image: { image, component: proposedComponent }, origin }): ImageRequest[] => {
    try {
      const reference = parseReference(image);
      return [{ reference, source: fromRegistry(reference), proposedComponent, isReplaceable: true, origin }];
    } catch (cause) {
      faults.push(`${origin}: ${reasonOf(cause)}`);
      isShort ||= isCanonicalReference(comparable(withRegistry(image, DOCKER)));
      return [];
    }
  });
  if (faults.length === 0) return requests;
  const more = faults.length > MAX_FAULTS ? `; and ${faults.length - MAX_FAULTS} more` : '';
  const hint = isShort ? `; --short-names REGISTRY says where short names come from, for example ${DOCKER}` : '';
  throw bundleError('bundle/option', oneLine(`${faults.slice(0, MAX_FAULTS).join('; ')}${more}${hint}`));
}

function originOf(file: string, { number }: ManifestDocument, of: { readonly owner: string; readonly field: string }) {
  return `${file}: document ${number}, ${of.owner === '' ? '' : `${of.owner}, `}${of.field}`;
}

/** Whether it belongs to Kubernetes, a catalog of operators, or another list of images. */
function isKnownObject(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return (
    isOtherList(value) ||
    ('kind' in value && typeof value.kind === 'string') ||
    ('schema' in value && isOfCatalog(value.schema))
  );
}

/** A text that is not YAML has no documents. */
function documentsIn(text: string): readonly unknown[] {
  if (text.length > MAX_NESTED_CHARS) return [];
  try {
    return parseManifestDocuments(text, '').map(({ value }) => value);
  } catch {
    return [];
  }
}

function foreignNote(file: string, { number, line }: ManifestDocument): string {
  return `${file}: document ${number} (line ${line}) is no Kubernetes object: it has no kind; only the images of pods in it were taken`;
}

async function filesOf(source: string, signal: AbortSignal): Promise<ManifestFiles> {
  const found = await stat(source).catch((cause: unknown) => {
    throw sourceError(source, cause);
  });
  return found.isDirectory()
    ? manifestFiles(source, signal, QUADLET)
    : { files: [source], kustomized: kustomizedBy([source]) };
}

async function readAll(stream: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of stream) {
      sizeBytes += chunk.length;
      if (sizeBytes > MAX_MANIFEST_BYTES) break;
      chunks.push(chunk);
    }
  } catch (cause) {
    signal.throwIfAborted();
    throw sourceError(STDIN, cause);
  }
  if (sizeBytes <= MAX_MANIFEST_BYTES) return decodeText(Buffer.concat(chunks));
  const message = `${STDIN} has more than ${MAX_MANIFEST_BYTES} bytes: give a folder of smaller files instead`;
  throw bundleError('bundle/source', message);
}

/** Short names are those of charts. */
function comparable(image: string): string {
  try {
    return formatReference(parseReference(withRegistry(image, DOCKER)));
  } catch {
    return image;
  }
}

function firstOfEach<T>(all: readonly T[], keyOf: (one: T) => string): T[] {
  const first = new Map<string, T>();
  for (const one of all) if (!first.has(keyOf(one))) first.set(keyOf(one), one);
  return [...first.values()];
}
