import type { BundleId, Digest } from '../../domain/model/digest.ts';
import type { DocumentCheckPlan } from '../../domain/release/damaged-images.ts';
import { isRetired } from '../../domain/release/recorded-phase.ts';
import type { DocumentCheck, DocumentChecks } from '../../domain/state/checks.ts';
import type { Stored } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { formatCount } from '../../platform/sizes.ts';
import { completeImage } from '../blobs/complete-documents.ts';
import type { EngineContext } from '../context.ts';
import { FailureLog } from '../reporting/event-recorder.ts';
import { Job } from '../tasks/tasks.ts';

/**
 * Restores lost documents from the runtime or a medium. Without `storedDocuments` it does nothing.
 */
export class DocumentKeeper {
  private readonly job: Job;
  private last: DocumentCheck | undefined;

  constructor(private readonly context: EngineContext) {
    this.job = new Job(context);
  }

  checks(): DocumentChecks | undefined {
    return this.context.storedDocuments && { isRunning: this.job.isRunning, last: this.last };
  }

  start(plan: DocumentCheckPlan): void {
    this.job.start((signal) => this.checkAll(plan, signal)).catch(() => undefined); // it was stopped
  }

  /** After the running check. @throws whatever aborted `signal` */
  async checkNow(plan: DocumentCheckPlan, signal: AbortSignal): Promise<void> {
    if (this.context.storedDocuments === undefined) return;
    await this.job.startNext((ending) => this.checkAll(plan, ending), signal);
  }

  stop(): Promise<void> {
    return this.job.stop();
  }

  private async checkAll({ releases, media, images }: DocumentCheckPlan, signal: AbortSignal): Promise<void> {
    const { clock, log, documents, storedDocuments, source } = this.context;
    const sources = [...(storedDocuments === undefined ? [] : [storedDocuments]), source];
    const at = clock.now();
    const kept = new Set<Digest>();
    const refilled = new Set<Digest>();
    const lacking = new Set<string>();
    let failure: AppError | undefined;
    const deps = {
      documents,
      sources,
      onKept: (digest: Digest) => kept.add(digest),
      onRefilled: refilled.add.bind(refilled),
    };
    for (const image of images) {
      try {
        if (!(await completeImage(image.digest, deps, signal))) lacking.add(image.reference);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof AppError)) throw error;
        failure ??= error;
        lacking.add(image.reference);
      }
    }
    const lackingChecks = lacking.size === 0 ? 0 : (this.last?.lackingChecks ?? 0) + 1;
    this.last = { at, releases, media, kept, lacking, lackingChecks };
    if (refilled.size > 0) {
      log.info(
        {},
        `${formatCount(refilled.size, 'document')} of images (manifests, configs) that were lost or damaged, kept again`,
      );
    }
    if (failure !== undefined) {
      log.warn(
        { err: failure },
        `Lost manifests and configs of images can't be kept again: ${reasonOf(failure)}; it is tried again`,
      );
    }
  }
}

/** Keeps what proves the signatures of adopted bundles, unless they are retired or rejected. */
export class SignedKeeper {
  private readonly failures: FailureLog;

  constructor(private readonly context: EngineContext) {
    this.failures = new FailureLog(context.log);
  }

  /** A failure is logged once and retried each round. Only an abort throws. */
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

/** Unknown bundles are spared: their records may be lost, or their stick is being read. */
function spareOf(kept: ReadonlySet<BundleId>, stored: Stored): readonly BundleId[] {
  const wanted = wantedOf(stored);
  const known = [...stored.bundles, ...stored.verdicts.filter(({ verdict }) => verdict === 'rejected')];
  return known.map(({ bundleId }) => bundleId).filter((bundleId) => kept.has(bundleId) && !wanted.has(bundleId));
}
