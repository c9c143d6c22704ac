import type { BundleId } from '../domain/model/digest.ts';
import type { FoundBundle } from '../domain/model/medium.ts';

/**
 * The signed documents of bundles on the node's own disk: the envelope, `contents.json` and
 * `index.json`. With the manifests and configs that lie there too, they prove a release anew when
 * what was recorded of it is lost.
 */
export interface SignedBundles {
  /**
   * All that are kept. Reads the disk only the first time. @throws AppError `store/blob` (`retry`)
   */
  list(signal: AbortSignal): Promise<ReadonlySet<BundleId>>;
  /** Whether a plugged medium has the bundle, so that {@link keep} can work. No I/O. */
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
  /** Judges one with the keys in force now, exactly as a bundle on a stick. */
  judge(bundleId: BundleId, signal: AbortSignal): Promise<FoundBundle>;
}
