import type { BundleId } from '../domain/model/digest.ts';
import type { FoundBundle } from '../domain/model/medium.ts';

/**
 * The envelope, `contents.json` and `index.json` of bundles on the node's own disk. With the
 * manifests and configs beside them they prove a release when its records are lost.
 */
export interface SignedBundles {
  /** Reads the disk only the first time. @throws AppError `store/blob` (`retry`) */
  list(signal: AbortSignal): Promise<ReadonlySet<BundleId>>;
  /** A plugged medium has the bundle, so {@link keep} can work. No I/O. */
  isPlugged(bundleId: BundleId): boolean;
  /**
   * Keeps those of a verified bundle on a plugged medium. Idempotent; crash-safe.
   *
   * @throws AppError `media/gone` (`wait`), `media/read` (`retry`), `store/no-space`, `store/blob`
   *   (`retry`)
   */
  keep(bundleId: BundleId, signal: AbortSignal): Promise<void>;
  /** Idempotent. @throws AppError `store/blob` (`retry`) */
  remove(bundleId: BundleId, signal: AbortSignal): Promise<void>;
  /** Judges a bundle with the keys in force now, as one on a stick. */
  judge(bundleId: BundleId, signal: AbortSignal): Promise<FoundBundle>;
}
