import type { Digest } from '../../domain/model/digest.ts';
import type { DocumentLookTest } from '../../domain/release/documents/document-look.ts';
import type { DocumentChecks, DocumentLook } from '../../domain/state/document-check.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { BlobSource, DocumentStore } from '../../ports/blobs.ts';
import { completeImage } from '../blobs/complete-documents.ts';

/** The adapters of {@link createDocumentKeeper}. */
export interface DocumentKeeperDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly documents: Pick<DocumentStore, 'sizeOf' | 'read' | 'put'>;
  /** All sources of the registry. */
  readonly source: Pick<BlobSource, 'sizeOf' | 'read'>;
  /** Manifests and configs that the runtime has of its images. Absent: no look is made. */
  readonly storedDocuments?: Pick<BlobSource, 'sizeOf' | 'read'> | undefined;
  /** Asks for a round. */
  readonly wantRound: () => void;
}

/**
 * Reads the documents of releases beside the rounds. What is lost or damaged is kept again, from
 * the runtime or from a medium.
 */
export interface DocumentKeeper {
  /** Undefined where no look is made. */
  checks(): DocumentChecks | undefined;
  /** Starts a look beside the rounds, unless one runs. Its end asks for a round. Never throws. */
  start(look: DocumentLookTest): void;
  /**
   * Makes a look now, after one that runs. Does nothing where none is made. @throws whatever
   * aborted `signal`
   */
  lookNow(look: DocumentLookTest, signal: AbortSignal): Promise<void>;
  /** Ends the running look. */
  stop(): Promise<void>;
}

interface Keeping extends DocumentKeeperDependencies {
  readonly ending: AbortController;
  running: Promise<void> | undefined;
  last: DocumentLook | undefined;
}

/** A keeper that has looked at nothing yet. INVARIANT: one look at a time. */
export function createDocumentKeeper(deps: DocumentKeeperDependencies): DocumentKeeper {
  const keeping: Keeping = { ...deps, ending: new AbortController(), running: undefined, last: undefined };
  return {
    checks: () =>
      deps.storedDocuments === undefined ? undefined : { isRunning: keeping.running !== undefined, last: keeping.last },
    start: (look) => void (keeping.running ?? start(keeping, look)),
    lookNow: async (look, signal) => {
      while (keeping.running !== undefined) await untilAborted(keeping.running, signal);
      await untilAborted(start(keeping, look), signal);
    },
    stop: async () => {
      keeping.ending.abort();
      await keeping.running;
    },
  };
}

/** Resolves when the look has ended. Never throws. */
async function start(keeping: Keeping, look: DocumentLookTest): Promise<void> {
  const { ending, storedDocuments, wantRound } = keeping;
  if (ending.signal.aborted || storedDocuments === undefined) return;
  const running = lookAtAll(keeping, look, [storedDocuments, keeping.source])
    .catch(() => undefined) // it was stopped
    .finally(() => {
      keeping.running = undefined;
      wantRound();
    });
  keeping.running = running;
  await running;
}

/** @throws whatever ended the keeper */
async function lookAtAll(
  keeping: Keeping,
  { releases, media, images }: DocumentLookTest,
  sources: readonly Pick<BlobSource, 'sizeOf' | 'read'>[],
): Promise<void> {
  const { clock, log, documents, ending } = keeping;
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
      if (!(await completeImage(image.digest, deps, ending.signal))) lacking.add(image.reference);
    } catch (error) {
      ending.signal.throwIfAborted();
      if (!(error instanceof AppError)) throw error;
      failure ??= error;
      lacking.add(image.reference);
    }
  }
  const lackingLooks = lacking.size === 0 ? 0 : (keeping.last?.lackingLooks ?? 0) + 1;
  keeping.last = { at, releases, media, kept, lacking, lackingLooks };
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
