import { LineCounter, parseAllDocuments } from 'yaml';
import type { ManifestImage } from '../../domain/release/manifest-warnings.ts';
import { podImagesIn } from '../../domain/release/pod-images.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { bundleError } from '../bundle-error.ts';

/**
 * The images of all Kubernetes objects in the text of one file (YAML 1.2 with merge keys, or JSON).
 *
 * @throws AppError `bundle/source` (`reject`) as `FILE:LINE: why`.
 */
export function parseManifests(text: string, file: string): ManifestImage[] {
  const lines = new LineCounter();
  const documents = parseAllDocuments(text.replace(/^\ufeff/, ''), {
    merge: true,
    logLevel: 'error',
    prettyErrors: false,
    lineCounter: lines,
  });
  return [...documents].flatMap((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw malformed(file, lines.linePos(error.pos[0]).line, error.message);
    try {
      return podImagesIn(document.toJS()).map((image) => ({ ...image, file }));
    } catch (cause) {
      throw malformed(file, lines.linePos(document.range[0]).line, reasonOf(cause));
    }
  });
}

function malformed(file: string, line: number, why: string) {
  return bundleError('bundle/source', `${file}:${line}: is not YAML: ${why}`);
}
