import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import type { Digest } from '../model/digest.ts';

/** Bytes of compressed layers of one bundle: those that are done, and all. */
export interface BytesDone {
  readonly doneBytes: number;
  readonly totalBytes: number;
}

/**
 * How far a bundle is: a layer counts whole once an image with it is present, and as far as it was
 * sent while it is under way.
 *
 * @param sentBytes the furthest byte that the registry sent of each blob
 */
export function bytesDone(
  { bundle }: BundleAssessment,
  { presentLayers }: Assessment,
  sentBytes: ReadonlyMap<Digest, number>,
): BytesDone {
  let doneBytes = 0;
  let totalBytes = 0;
  for (const { digest, sizeBytes } of bundle.contents.layers) {
    totalBytes += sizeBytes;
    doneBytes += presentLayers.has(digest) ? sizeBytes : Math.min(sizeBytes, sentBytes.get(digest) ?? 0);
  }
  return { doneBytes, totalBytes };
}
