import type { Digest } from '../domain/digest.ts';
import { mirrorPathOf } from '../domain/mirror-path.ts';
import type { TransferMeter } from '../engine/ports.ts';

/** A {@link TransferMeter} with the side that the registry writes to. */
export interface RecordingMeter extends TransferMeter {
  /** `count` bytes of `digest` were sent; the blob has now been sent up to `endByte`. */
  sent(digest: Digest, count: number, endByte: number): void;
  /** A manifest under this mirror path was asked for, by digest or by tag. */
  manifestRequested(mirrorPath: string, reference: string): void;
  /** A transfer starts (`1`) or ends (`-1`) to wait for its medium. */
  waits(change: 1 | -1): void;
}

/** A meter at zero. */
export function createMeter(): RecordingMeter {
  let totalBytes = 0;
  let waiting = 0;
  const furthest = new Map<Digest, number>();
  const manifests = new Map<string, number>();
  return {
    totalBytes: () => totalBytes,
    sentBytes: () => furthest,
    forget: (digest) => {
      furthest.delete(digest);
    },
    manifestRequests: (repository, digest) => manifests.get(`${mirrorPathOf(repository)}@${digest}`) ?? 0,
    waiting: () => waiting,
    sent: (digest, count, endByte) => {
      totalBytes += count;
      furthest.set(digest, Math.max(furthest.get(digest) ?? 0, endByte));
    },
    manifestRequested: (path, reference) => {
      const key = `${path}@${reference}`;
      manifests.set(key, (manifests.get(key) ?? 0) + 1);
    },
    waits: (change) => {
      waiting += change;
    },
  };
}
