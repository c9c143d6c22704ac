import { LineCounter, parseAllDocuments } from 'yaml';
import type { ManifestImage } from '../../domain/release/manifest-warnings.ts';
import { podImagesIn } from '../../domain/release/pod-images.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';

/** The code of an error of `yaml`. */
const REPEATED = 'DUPLICATE_KEY';

/** One document of a file of manifests. */
export interface ManifestDocument {
  /** 1-based, counted as `---` separates them. */
  readonly number: number;
  /** 1-based, where it begins. */
  readonly line: number;
  /** Null for a document that is empty. Of a key that is repeated in a map, the last value. */
  readonly value: unknown;
  /** Lines (1-based) with a key that its map has already. */
  readonly repeatedKeys: readonly number[];
}

/**
 * All documents in the text of one file (YAML 1.2 with merge keys, or JSON). As kubectl, helm and
 * the kubelet read them, a key that is repeated in a map is no fault.
 *
 * @throws AppError `bundle/source` (`reject`) as `FILE:LINE: why`.
 */
export function parseManifestDocuments(text: string, file: string): ManifestDocument[] {
  const lines = new LineCounter();
  const documents = parseAllDocuments(text.replace(/^\ufeff/, ''), {
    merge: true,
    logLevel: 'error',
    prettyErrors: false,
    lineCounter: lines,
  });
  return [...documents].map((document, at) => {
    const { line } = lines.linePos(document.range[0]);
    const error = document.errors.find(({ code }) => code !== REPEATED);
    if (error !== undefined) throw malformed(file, lines.linePos(error.pos[0]).line, error.message);
    try {
      const repeated = document.errors.map(({ pos }) => lines.linePos(pos[0]).line);
      return { number: at + 1, line, value: document.toJS(), repeatedKeys: repeated };
    } catch (cause) {
      throw malformed(file, line, reasonOf(cause));
    }
  });
}

/** A sentence about the keys that are repeated in the documents of one file, if there are any. */
export function repeatedKeyNotes(documents: readonly ManifestDocument[], file: string): string[] {
  const [line, ...more] = documents.flatMap(({ repeatedKeys }) => repeatedKeys);
  if (line === undefined) return [];
  const others = more.length === 0 ? '' : ` (the first of ${more.length + 1} such keys in the file)`;
  return [`${file}:${line}: the map has this key already${others}; the last value is taken, as by kubectl and helm`];
}

/**
 * The images of all Kubernetes objects in the text of one file.
 *
 * @throws AppError as {@link parseManifestDocuments}
 */
export function parseManifests(text: string, file: string): ManifestImage[] {
  return imagesIn(parseManifestDocuments(text, file), file);
}

/** The images of all Kubernetes objects in these documents of one file. */
export function imagesIn(documents: readonly ManifestDocument[], file: string): ManifestImage[] {
  return documents.flatMap(({ value }) => podImagesIn(value).map((image) => ({ ...image, file })));
}

function malformed(file: string, line: number, why: string) {
  return bundleError('bundle/source', `${file}:${line}: is not YAML: ${why}`);
}
