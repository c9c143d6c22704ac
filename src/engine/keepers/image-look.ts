import type { ImageContent } from '../../domain/model/image/image-content.ts';
import type { ImageToCheck } from '../../domain/release/content/images-to-check.ts';
import { AppError } from '../../platform/app-error.ts';
import type { DocumentStore } from '../../ports/blobs.ts';
import type { ContentCheck } from '../../ports/image-content.ts';
import { documentsOf } from '../blobs/image-documents.ts';

/** What a look at an image needs. `onBytes` as in {@link ContentCheck}. */
export interface ImageLook {
  readonly check: ContentCheck;
  /** Kept manifests, indexes and configs. */
  readonly documents: Pick<DocumentStore, 'sizeOf' | 'read'>;
  readonly onBytes: (bytes: number) => void;
}

/** Errors of a runtime that does not answer. */
const AWAY: ReadonlySet<string> = new Set(['runtime/unreachable', 'runtime/cancelled', 'runtime/stopping']);

/**
 * Looks at the content of one image. Documents that are not kept are not expected. An image that
 * can't be looked at is `unknown`.
 *
 * @throws AppError when the runtime does not answer; whatever aborted `signal`
 */
export async function lookAt(
  { reference, digest, layers }: ImageToCheck,
  { check, documents, onBytes }: ImageLook,
  signal: AbortSignal,
): Promise<ImageContent> {
  try {
    const expected = { reference, documents: await documentsOf(digest, documents, signal), layers };
    return await check.check(expected, onBytes, signal);
  } catch (error) {
    if (!(error instanceof AppError) || AWAY.has(error.code)) throw error;
    return { kind: 'unknown', reason: { code: error.code, message: error.message } };
  }
}
