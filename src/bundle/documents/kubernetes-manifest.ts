import { LineCounter, parseAllDocuments } from 'yaml';
import type { ManifestImage } from '../../domain/release/manifest-warnings.ts';
import { podImagesIn } from '../../domain/release/pod-images.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';

/** One document of a file of manifests. */
export interface ManifestDocument {
  /** 1-based, counted as `---` separates them. */
  readonly number: number;
  /** 1-based, where it begins. */
  readonly line: number;
  /** Null for a document that is empty. */
  readonly value: unknown;
}

/**
 * All documents in the text of one file (YAML 1.2 with merge keys, or JSON).
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
    const [error] = document.errors;
    if (error !== undefined) throw malformed(file, lines.linePos(error.pos[0]).line, error.message);
    try {
      return { number: at + 1, line, value: document.toJS() };
    } catch (cause) {
      throw malformed(file, line, reasonOf(cause));
    }
  });
}

/**
 * The images of all Kubernetes objects in the text of one file.
 *
 * @throws AppError as {@link parseManifestDocuments}
 */
export function parseManifests(text: string, file: string): ManifestImage[] {
  return parseManifestDocuments(text, file).flatMap(({ value }) =>
    podImagesIn(value).map((image) => ({ ...image, file })),
  );
}

function malformed(file: string, line: number, why: string) {
  return bundleError('bundle/source', `${file}:${line}: is not YAML: ${why}`);
}
