import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import { type ImageDocument, parseImageDocument } from '../format/oci-schema.ts';
import { limits } from '../limits.ts';
import type { BundleReader } from './bundle-reader.ts';

export type DocumentSource = Pick<BundleReader, 'sizeOf' | 'read'>;

export interface ReadDocument {
  readonly bytes: Buffer;
  /** Absent for other bytes, and for another digest, since unsigned bytes must not be parsed. */
  readonly document: ImageDocument | undefined;
}

/** Reads up to 4 MiB; undefined if larger or absent. @throws AppError `media/gone`, `media/read` */
export async function readImageDocument(
  source: DocumentSource,
  digest: Digest,
  signal: AbortSignal,
): Promise<ReadDocument | undefined> {
  const sizeBytes = await source.sizeOf(digest, signal);
  if (sizeBytes === undefined || sizeBytes > limits.manifestBytes) return undefined;
  const chunks: Buffer[] = [];
  let readBytes = 0;
  for await (const chunk of source.read(digest, 0, signal)) {
    readBytes += chunk.length;
    // A file may grow while it is read.
    if (readBytes > limits.manifestBytes) return undefined;
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  return { bytes, document: digestOf(bytes) === digest ? documentIn(bytes, digest) : undefined };
}

function documentIn(bytes: Buffer, digest: Digest): ImageDocument | undefined {
  try {
    return parseImageDocument(bytes, `document ${digest}`, 'bundle/inconsistent');
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}
