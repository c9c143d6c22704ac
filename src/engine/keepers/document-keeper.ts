import { parseImageDocument } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { readImageDocument } from '../../bundle/read/read-image-document.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import type { DocumentCheckPlan } from '../../domain/release/damaged-images.ts';
import { isRetired } from '../../domain/release/recorded-phase.ts';
import type { DocumentCheck, DocumentChecks } from '../../domain/state/checks.ts';
import type { Stored } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { Clock } from '../../platform/clock.ts';
import { digestOf } from '../../platform/digest.ts';
import type { Log } from '../../platform/log.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { BlobSource, DocumentStore, SignedBundles } from '../../ports/blobs.ts';
import type { StateStore } from '../../ports/state.ts';
import type { Decided, Part } from '../context.ts';
import { FailureLog } from '../reporting/event-recorder.ts';
import type { Jobs } from '../tasks/jobs.ts';

const JOB = 'documents';

/** Restores lost documents from the runtime or a medium. */
export class DocumentKeeper {
  private last: DocumentCheck | undefined;

  /** @param stored manifests and configs that the runtime has. Undefined: it does nothing. */
  constructor(
    private readonly jobs: Jobs,
    private readonly clock: Clock,
    private readonly log: Log,
    private readonly documents: DocumentStore,
    private readonly stored: BlobSource | undefined,
    private readonly source: BlobSource,
  ) {}

  checks(): DocumentChecks | undefined {
    return this.stored && { isRunning: this.jobs.isRunning(JOB), last: this.last };
  }

  start(plan: DocumentCheckPlan): void {
    this.jobs.start(JOB, (signal) => this.checkAll(plan, signal)).catch(() => undefined); // the jobs were stopped
  }

  /** Waits for the running check, then checks. @throws whatever aborted `signal` */
  async checkNow(plan: DocumentCheckPlan, signal: AbortSignal): Promise<void> {
    if (this.stored !== undefined) await this.jobs.startNext(JOB, (ending) => this.checkAll(plan, ending), signal);
  }

  private async checkAll({ releases, media, images }: DocumentCheckPlan, signal: AbortSignal): Promise<void> {
    const { clock, log, documents, stored, source } = this;
    const sources = stored === undefined ? [source] : [stored, source];
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
export class SignedKeeper implements Part {
  private readonly failures: FailureLog;

  constructor(
    private readonly signedBundles: SignedBundles,
    private readonly store: StateStore,
    log: Log,
  ) {
    this.failures = new FailureLog(log);
  }

  async reconcile({ observed }: Decided, signal: AbortSignal): Promise<void> {
    if (observed.facts.keepsOnly === true) return;
    const { signedBundles } = this;
    const stored = this.store.load();
    await this.failures.run(signal, async () => {
      const kept = await signedBundles.list(signal);
      for (const bundleId of wantedOf(stored)) {
        if (!kept.has(bundleId) && signedBundles.isPlugged(bundleId)) await signedBundles.keep(bundleId, signal);
      }
      for (const bundleId of spareOf(kept, stored)) await signedBundles.remove(bundleId, signal);
    });
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

interface DocumentSources {
  readonly documents: DocumentStore;
  /** They are read in this order. */
  readonly sources: readonly BlobSource[];
  readonly onKept: (digest: Digest) => void;
  readonly onRefilled: (digest: Digest) => void;
}

/**
 * Reads the documents of an image from the node's own disk, and restores lost or damaged ones.
 * @returns whether a pull can be answered now: manifest and config are kept
 * @throws AppError `store/…` when a document can't be written; whatever aborted `signal`
 */
async function completeImage(root: Digest, deps: DocumentSources, signal: AbortSignal): Promise<boolean> {
  const bytes = await keptAgain(root, deps, signal);
  const document = bytes && documentIn(bytes, root);
  if (document === undefined) return false;
  if (document.kind === 'manifest') return (await keptAgain(document.config.digest, deps, signal)) !== undefined;
  let isComplete = false;
  // An index names the manifests of all platforms; a node has only one or some of them.
  for (const { digest } of document.manifests) isComplete = (await completeImage(digest, deps, signal)) || isComplete;
  return isComplete;
}

async function keptAgain(digest: Digest, deps: DocumentSources, signal: AbortSignal): Promise<Buffer | undefined> {
  const { documents, sources, onKept, onRefilled } = deps;
  const kept = await wholeIn(documents, digest, signal);
  if (kept !== undefined) {
    onKept(digest);
    return kept;
  }
  for (const source of sources) {
    const bytes = await wholeIn(source, digest, signal);
    if (bytes === undefined) continue;
    await documents.put(digest, bytes, signal);
    onKept(digest);
    onRefilled(digest);
    return bytes;
  }
  return undefined;
}

/** A source that can't be read or has other bytes has none: the next one may be better. */
async function wholeIn(source: BlobSource, digest: Digest, signal: AbortSignal): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let readBytes = 0;
  try {
    const sizeBytes = await source.sizeOf(digest, signal);
    if (sizeBytes === undefined || sizeBytes > limits.manifestBytes) return undefined;
    for await (const chunk of source.read(digest, 0, signal)) {
      readBytes += chunk.length;
      if (readBytes > limits.manifestBytes) return undefined;
      chunks.push(Buffer.from(chunk));
    }
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
  const bytes = Buffer.concat(chunks);
  return digestOf(bytes) === digest ? bytes : undefined;
}

function documentIn(bytes: Buffer, digest: Digest) {
  try {
    return parseImageDocument(bytes, `document ${digest}`, 'bundle/inconsistent');
  } catch (error) {
    if (error instanceof AppError) return undefined;
    throw error;
  }
}

interface ManifestDocuments {
  readonly documents: readonly Digest[];
  readonly layers?: ReadonlySet<Digest>;
}

/**
 * Lists the manifests of an index that `source` has. Nothing is known below a damaged or absent
 * document.
 */
export async function manifestsOf(root: Digest, source: BlobSource, signal: AbortSignal): Promise<ManifestDocuments[]> {
  const document = (await readImageDocument(source, root, signal))?.document;
  if (document === undefined) return [{ documents: [root] }];
  if (document.kind === 'manifest') {
    const layers = new Set(document.layers.map(({ digest }) => digest));
    return [{ documents: [root, document.config.digest], layers }];
  }
  const below: ManifestDocuments[] = [];
  for (const { digest } of document.manifests) {
    if ((await source.sizeOf(digest, signal)) === undefined) continue;
    const found = await manifestsOf(digest, source, signal);
    below.push(...found.map((one) => ({ ...one, documents: [root, ...one.documents] })));
  }
  return below.length === 0 ? [{ documents: [root] }] : below;
}

export async function documentsOf(root: Digest, source: BlobSource, signal: AbortSignal): Promise<readonly Digest[]> {
  const manifests = await manifestsOf(root, source, signal);
  return [...new Set(manifests.flatMap(({ documents }) => documents))];
}
