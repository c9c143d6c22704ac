import { mediaTypes } from '../bundle/format/oci-schema.ts';
import { readImageDocument } from '../bundle/read/read-image-document.ts';
import type { Digest } from '../domain/model/digest.ts';
import type { BlobSource } from '../ports/blobs.ts';

/** A manifest as it is sent. */
export interface ManifestBody {
  readonly bytes: Buffer;
  readonly mediaType: string;
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
  return read && { bytes: read.bytes, mediaType: read.document?.mediaType ?? mediaTypes.ociManifest };
}
