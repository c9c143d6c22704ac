import { type ImageDocument, mediaTypes } from '../bundle/format/oci-schema.ts';
import { readImageDocument } from '../bundle/read/read-image-document.ts';
import type { Digest } from '../domain/model/digest.ts';
import type { BlobSource } from '../ports/blobs.ts';

/** A manifest as it is sent. */
export interface ManifestBody {
  readonly bytes: Buffer;
  readonly mediaType: string;
  /** Undefined when it has another digest, or is no manifest. */
  readonly document: ImageDocument | undefined;
}

/**
 * Reads a whole manifest from a source, or undefined when the source has none of acceptable size.
 * The client checks its digest: one with another digest is sent as an image manifest, whatever it
 * says of itself, and the client refuses it.
 *
 * @throws AppError as {@link BlobSource.read} does.
 */
export async function readManifest(
  source: BlobSource,
  digest: Digest,
  signal: AbortSignal,
): Promise<ManifestBody | undefined> {
  const read = await readImageDocument(source, digest, signal);
  if (read === undefined) return undefined;
  const { bytes, document } = read;
  return { bytes, mediaType: document?.mediaType ?? mediaTypes.ociManifest, document };
}
