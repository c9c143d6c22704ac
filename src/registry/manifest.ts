import type { Digest } from '../domain/model/digest.ts';
import { digestOf } from '../platform/digest.ts';
import type { BlobSource } from '../ports/blobs.ts';

/** Bundle format, limits: a manifest is at most 4 MiB. */
const MANIFEST_MAX_BYTES = 4 * 1024 * 1024;
const OCI_MANIFEST = 'application/vnd.oci.image.manifest.v1+json';

/** A manifest as it is sent. */
export interface ManifestBody {
  readonly bytes: Buffer;
  readonly mediaType: string;
}

/**
 * Reads a whole manifest from a source, or undefined when the source has none of acceptable size.
 * The client checks its digest.
 *
 * @throws AppError as {@link BlobSource.read} does.
 */
export async function readManifest(
  source: BlobSource,
  digest: Digest,
  signal: AbortSignal,
): Promise<ManifestBody | undefined> {
  const sizeBytes = await source.sizeOf(digest, signal);
  if (sizeBytes === undefined || sizeBytes > MANIFEST_MAX_BYTES) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of source.read(digest, 0, signal)) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  // What has another digest is nothing that anybody signed: it is not parsed, and the client
  // refuses it.
  const isRight = digestOf(bytes) === digest;
  return { bytes, mediaType: isRight ? mediaTypeOf(bytes) : OCI_MANIFEST };
}

/**
 * The `mediaType` that a manifest carries; without one, by its shape (OCI image-spec: the property
 * is a SHOULD).
 */
function mediaTypeOf(bytes: Buffer): string {
  const index = 'application/vnd.oci.image.index.v1+json';
  try {
    const parsed: unknown = JSON.parse(bytes.toString('utf8'));
    if (typeof parsed !== 'object' || parsed === null) return OCI_MANIFEST;
    if ('mediaType' in parsed && typeof parsed.mediaType === 'string') return parsed.mediaType;
    return 'manifests' in parsed ? index : OCI_MANIFEST;
  } catch {
    return OCI_MANIFEST;
  }
}
