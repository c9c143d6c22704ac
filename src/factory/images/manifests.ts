import { readdir, readFile, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { bundleError } from '../../bundle/bundle-error.ts';
import {
  imagesIn,
  type ManifestDocument,
  parseManifestDocuments,
  repeatedKeyNotes,
} from '../../bundle/documents/kubernetes-manifest.ts';
import type { ManifestImage } from '../../domain/release/manifest-images.ts';
import { AppError } from '../../platform/app-error.ts';
import { decodeText } from '../../platform/plain-text.ts';
import { sourceError } from './layout-source.ts';
import { imagesInText } from './loose-images.ts';

export interface Manifests {
  readonly images: readonly ManifestImage[];
  readonly notes: readonly string[];
}

export const MAX_MANIFEST_BYTES = 16 * 1024 * 1024;
const MAX_FILES = 20_000;
/** kustomize reads these names. */
const KUSTOMIZATION = /^(?:kustomization\.ya?ml|Kustomization)$/;
export const MANIFEST = /\.(?:ya?ml|json)$/i;

/**
 * Reads every `*.yaml`, `*.yml` and `*.json` below `directory`, by path. Hidden entries and links
 * to folders are left out. At most 20,000 files of 16 MiB each.
 * @throws AppError `bundle/source` as {@link parseManifest}; also without a manifest
 */
export async function readManifests(directory: string, signal: AbortSignal): Promise<Manifests> {
  const { files, kustomized } = await manifestFiles(directory, signal);
  const images: ManifestImage[] = [];
  const notes = kustomizeNotes(kustomized);
  for (const file of files) {
    const { documents, notes: fileNotes } = parseManifest(await readManifestText(file, signal), file, true);
    for (const image of imagesIn(documents, file)) images.push(image);
    notes.push(...fileNotes);
  }
  return { images, notes };
}

/** A member whose value names an image, in YAML or JSON. */
export const NAMES_IMAGE = /image["']?\s*:/i;

/**
 * A malformed file that names no image is left out with a note: people keep all kinds of files.
 *
 * @throws AppError `bundle/source` as `FILE:LINE: why`
 */
export function parseManifest(
  text: string,
  file: string,
  isInFolder: boolean,
): { readonly documents: readonly ManifestDocument[]; readonly notes: readonly string[] } {
  try {
    const documents = parseManifestDocuments(text, file);
    return { documents, notes: repeatedKeyNotes(documents, file) };
  } catch (error) {
    const hasImage = NAMES_IMAGE.test(text) || imagesInText(text).length > 0;
    if (!(error instanceof AppError) || !isInFolder || hasImage) throw error;
    return { documents: [], notes: [`${error.message}; the file names no image, and is left out`] };
  }
}

export interface ManifestFiles {
  /** Sorted. */
  readonly files: readonly string[];
  /** Folders that are written for kustomize. */
  readonly kustomized: readonly string[];
}

const NONE = /$^/;

/**
 * @param others names of more files
 * @throws AppError `bundle/source` (`reject`) when there is none, or too many
 */
export async function manifestFiles(directory: string, signal: AbortSignal, others = NONE): Promise<ManifestFiles> {
  const found = await filesBelow(directory, others, signal);
  const files = found.filter((file) => MANIFEST.test(file) || others.test(file));
  if (files.length > 0) return { files, kustomized: kustomizedBy(found) };
  throw bundleError('bundle/source', `there is no *.yaml, *.yml or *.json in ${directory}`);
}

export function kustomizedBy(files: readonly string[]): string[] {
  return files.filter((file) => KUSTOMIZATION.test(basename(file))).map(dirname);
}

/** Returns one sentence, or none. */
export function kustomizeNotes([first, ...more]: readonly string[]): string[] {
  if (first === undefined) return [];
  const others = more.length === 0 ? '' : ` (and ${more.length} more)`;
  return [
    `${first} is a kustomize folder${others}: render it first, as 'kubectl kustomize ${first} | stickpin bundle create --images-from - …', since kustomize may give its images other names and tags`,
  ];
}

async function filesBelow(directory: string, others: RegExp, signal: AbortSignal): Promise<string[]> {
  signal.throwIfAborted();
  const entries = await readdir(directory, { withFileTypes: true }).catch((cause: unknown) => {
    throw sourceError(directory, cause);
  });
  const files: string[] = [];
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(directory, entry.name);
    if (entry.name.startsWith('.')) continue;
    if (entry.isDirectory()) files.push(...(await filesBelow(path, others, signal)));
    else if (
      (MANIFEST.test(entry.name) || KUSTOMIZATION.test(entry.name) || others.test(entry.name)) &&
      (entry.isFile() || entry.isSymbolicLink())
    )
      files.push(path);
    if (files.length > MAX_FILES)
      throw bundleError('bundle/source', `${directory} has more than ${MAX_FILES} manifests`);
  }
  return files;
}

/** @throws AppError `bundle/source` when larger than 16 MiB, no file, or unreadable */
export async function readManifestText(path: string, signal: AbortSignal): Promise<string> {
  try {
    const found = await stat(path);
    if (!found.isFile()) throw bundleError('bundle/source', `${path} is not a file`);
    if (found.size > MAX_MANIFEST_BYTES) {
      throw bundleError('bundle/source', `${path} has ${found.size} bytes, and ${MAX_MANIFEST_BYTES} are allowed`);
    }
    return decodeText(await readFile(path, { signal }));
  } catch (cause) {
    signal.throwIfAborted();
    throw sourceError(path, cause);
  }
}
