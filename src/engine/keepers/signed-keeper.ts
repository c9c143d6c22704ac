import type { BundleId } from '../../domain/model/digest.ts';
import { isRetired } from '../../domain/release/recorded-phase.ts';
import type { Stored } from '../../domain/state/state.ts';
import type { EngineContext } from '../context.ts';
import { createFailureLog, type FailureLog } from '../reporting/failure-log.ts';

/**
 * Keeps what proves the signatures of those bundles that are adopted, not retired and not rejected.
 */
export class SignedKeeper {
  private readonly failures: FailureLog;

  constructor(private readonly context: EngineContext) {
    this.failures = createFailureLog(context.log);
  }

  /** A failure is logged once and tried again in a later round. Only an abort throws. */
  async reconcile(signal: AbortSignal): Promise<void> {
    const { signedBundles, store } = this.context;
    const stored = store.load();
    try {
      const kept = await signedBundles.list(signal);
      for (const bundleId of wantedOf(stored)) {
        if (!kept.has(bundleId) && signedBundles.isPlugged(bundleId)) await signedBundles.keep(bundleId, signal);
      }
      for (const bundleId of spareOf(kept, stored)) await signedBundles.remove(bundleId, signal);
      this.failures.succeeded();
    } catch (error) {
      signal.throwIfAborted();
      this.failures.failed(error);
    }
  }
}

function wantedOf({ bundles, verdicts }: Stored): ReadonlySet<BundleId> {
  const rejected = new Set(verdicts.filter(({ verdict }) => verdict === 'rejected').map(({ bundleId }) => bundleId));
  return new Set(
    bundles.filter((bundle) => !isRetired(bundle) && !rejected.has(bundle.bundleId)).map(({ bundleId }) => bundleId),
  );
}

/** Of an unknown bundle nothing goes: its records may be lost, and its stick may be read now. */
function spareOf(kept: ReadonlySet<BundleId>, stored: Stored): readonly BundleId[] {
  const wanted = wantedOf(stored);
  const known = [...stored.bundles, ...stored.verdicts.filter(({ verdict }) => verdict === 'rejected')];
  return known.map(({ bundleId }) => bundleId).filter((bundleId) => kept.has(bundleId) && !wanted.has(bundleId));
}
