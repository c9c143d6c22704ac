import type { Assessment } from '../../domain/assess/assess.ts';
import { type ReleaseFolder, releaseFilesPlan, spareAttachments } from '../../domain/decide/release-files.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { AttachmentStore, BlobSource, DocumentStore } from '../../ports/blobs.ts';
import type { ReleaseFile, ReleaseFiles } from '../../ports/release-files.ts';
import { documentsOf } from '../blobs/image-documents.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';

/** The adapters of {@link createReleaseKeeper}. */
export interface ReleaseKeeperDependencies {
  readonly releaseFiles: ReleaseFiles;
  readonly source: BlobSource;
  /** The store of attachments, manifests and configs. */
  readonly documents: DocumentStore & Pick<AttachmentStore, 'linkTo'>;
  readonly recorder: EventRecorder;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** Called before each release, for the watchdog. */
  readonly alive: () => void;
  /** Asks for a round. */
  readonly wantRound: () => void;
}

/**
 * Files of a release that are larger together are installed beside the rounds, which would have to
 * wait for them.
 */
const SMALL_BYTES = 16 * 1024 * 1024;
/**
 * How long small files of one release may take: one that was damaged is read from its medium again,
 * which may be as bad.
 */
const LAY_DEADLINE_MS = 30_000;
/** Pause before large files are installed again after that failed; doubled each time. */
const LARGE_PAUSE_MS = 30_000;
const LARGE_PAUSE_MAX_MS = 600_000;
const GONE_PAUSE_MS = 1_000;

/**
 * Installs the attached files of releases, and removes them when a release is retired, also from
 * the kept documents.
 */
export interface ReleaseKeeper {
  /**
   * Brings the folders in line. What fails is reported once, until something else fails, and tried
   * again in a later round. Only an abort throws.
   */
  follow(assessment: Assessment, signal: AbortSignal): Promise<void>;
  /** The folders that were there at the end of the last round, and whose files lie in each. */
  installed(): ReadonlyMap<string, BundleId>;
  /** Aborts what runs beside the rounds, and waits for its end. */
  stop(): Promise<void>;
}

/** The adapters and the state of a keeper. */
interface Keeping extends ReleaseKeeperDependencies {
  /** The failure that was last reported. Empty after a round without one. */
  reported: string;
  /** Attachments that are also documents of images and therefore stay. */
  readonly shared: Set<Digest>;
  installed: ReadonlyMap<string, BundleId>;
  /** Large files that are being installed; undefined when none are. */
  large: { readonly controller: AbortController; readonly ended: Promise<void> } | undefined;
  readonly failed: Map<BundleId, LargeFailure>;
}

/** Large files could not be installed. */
interface LargeFailure {
  readonly why: string;
  readonly error: unknown;
  readonly count: number;
  /** When it is tried again, in monotonic milliseconds. */
  readonly retryAt: number;
}

/**
 * Executes one step. A failure is stored with the prefix `what`; it does not stop the next step.
 */
type Attempt = (what: string, work: () => Promise<void>) => Promise<void>;

/** Creates a keeper. */
export function createReleaseKeeper(deps: ReleaseKeeperDependencies): ReleaseKeeper {
  const keeping: Keeping = {
    ...deps,
    reported: '',
    shared: new Set(),
    installed: new Map(),
    large: undefined,
    failed: new Map(),
  };
  return {
    follow: (assessment, signal) => follow(keeping, assessment, signal),
    installed: () => keeping.installed,
    stop: async () => {
      keeping.large?.controller.abort();
      await keeping.large?.ended;
    },
  };
}

/**
 * INVARIANT: nothing is changed while large files are being installed, so that one thing at a time
 * is done to the folders.
 */
async function follow(keeping: Keeping, assessment: Assessment, signal: AbortSignal): Promise<void> {
  if (keeping.large !== undefined) return;
  let failure = '';
  const attempt: Attempt = async (what, work) => {
    try {
      await work();
    } catch (error) {
      signal.throwIfAborted();
      failure = `${what}: ${reasonOf(error)}`;
    }
  };
  await attempt("The attached files can't be looked at", () => followFolders(keeping, assessment, attempt, signal));
  await attempt('Attached files of retired releases stay', () => dropSpare(keeping, assessment, signal));
  if (failure !== '' && failure !== keeping.reported) {
    keeping.recorder.tell({ kind: 'filesNotLaid', level: 'warn', message: failure });
  }
  keeping.reported = failure;
}

/**
 * INVARIANT: unwanted folders are removed first, then folders are moved, then new ones are made. A
 * new folder may have the name of an old one.
 */
async function followFolders(
  keeping: Keeping,
  assessment: Assessment,
  attempt: Attempt,
  signal: AbortSignal,
): Promise<void> {
  const { releaseFiles, alive } = keeping;
  const before = await releaseFiles.list(signal);
  const plan = releaseFilesPlan(assessment, before);
  for (const folder of plan.remove) {
    await attempt(`Files in releases/${folder} stay`, () => releaseFiles.remove(folder, signal));
  }
  for (const { from, to } of plan.move) {
    await attempt(`Files in releases/${from} stay there`, () => releaseFiles.move(from, to, signal));
  }
  for (const entry of plan.install.filter((one) => !isLarge(one))) {
    alive();
    await attempt(notLaid(entry), () =>
      withDeadline('Reading them', LAY_DEADLINE_MS, signal, (inner) => install(keeping, entry, inner)),
    );
  }
  const after = await releaseFiles.list(signal);
  // Hooks wait for the files of their release.
  if (!isSame(keeping.installed, after)) keeping.wantRound();
  keeping.installed = after;
  const large = plan.install.filter(isLarge);
  for (const { bundle } of large) {
    const failed = keeping.failed.get(bundle.bundleId);
    if (failed !== undefined) await attempt(failed.why, () => Promise.reject(failed.error));
  }
  startLarge(keeping, large);
}

function isLarge({ files }: ReleaseFolder): boolean {
  return files.reduce((sum, { size }) => sum + size, 0) > SMALL_BYTES;
}

function notLaid({ bundle }: ReleaseFolder): string {
  return `Files of ${bundleTitle(bundle.payload)} are not installed`;
}

function isSame(one: ReadonlyMap<string, BundleId>, other: ReadonlyMap<string, BundleId>): boolean {
  return one.size === other.size && [...one].every(([folder, bundleId]) => other.get(folder) === bundleId);
}

/** Lays the first of these that is not to be waited with, beside the rounds. */
function startLarge(keeping: Keeping, entries: readonly ReleaseFolder[]): void {
  const { failed, clock, wantRound } = keeping;
  const now = clock.monotonic();
  const next = entries.find(({ bundle }) => now >= (failed.get(bundle.bundleId)?.retryAt ?? now));
  if (next === undefined) return;
  const { bundleId } = next.bundle;
  const controller = new AbortController();
  const ended = install(keeping, next, controller.signal)
    .then(() => void failed.delete(bundleId))
    .catch((error: unknown) => {
      const count = (failed.get(bundleId)?.count ?? 0) + 1;
      const pauseMs = pauseAfter(error, count);
      failed.set(bundleId, { why: notLaid(next), error, count, retryAt: clock.monotonic() + pauseMs });
    })
    .finally(() => {
      keeping.large = undefined;
      wantRound();
    });
  keeping.large = { controller, ended };
}

/** What is on no medium costs nothing to look for again. */
function pauseAfter(error: unknown, count: number): number {
  if (error instanceof AppError && error.code === 'media/gone') return GONE_PAUSE_MS;
  return Math.min(LARGE_PAUSE_MAX_MS, LARGE_PAUSE_MS * 2 ** Math.min(10, count - 1));
}

async function install(
  { source, releaseFiles, recorder, documents }: Keeping,
  { folder, bundle, files }: ReleaseFolder,
  signal: AbortSignal,
): Promise<void> {
  for (const { name, digest } of files) {
    if ((await source.sizeOf(digest, signal)) === undefined) throw nowhere(name, digest);
  }
  const readable = files.map(
    ({ name, digest }): ReleaseFile => ({
      name,
      digest,
      read: (inner) => source.read(digest, 0, inner),
      linkTo: (path, inner) => documents.linkTo(digest, path, inner),
    }),
  );
  await releaseFiles.install(folder, bundle.bundleId, readable, signal);
  const names = files.map(({ name }) => name).join(', ');
  const message = `Files of ${bundleTitle(bundle.payload)} are installed in releases/${folder}: ${names}`;
  recorder.tell({ kind: 'filesInstalled', level: 'info', bundleId: bundle.bundleId, message });
}

/**
 * Removes attachments of retired releases from the kept documents. An attachment may also be the
 * config of an image; only the manifests tell. They are read only when there is something to
 * remove, once for each release.
 */
async function dropSpare(keeping: Keeping, assessment: Assessment, signal: AbortSignal): Promise<void> {
  const { documents, shared, alive } = keeping;
  const spare = spareAttachments(assessment, await documents.list(signal)).filter((digest) => !shared.has(digest));
  if (spare.length === 0) return;
  for (const image of imagesOf(assessment)) {
    alive();
    for (const digest of await documentsOf(image, documents, signal)) if (spare.includes(digest)) shared.add(digest);
  }
  for (const digest of spare) if (!shared.has(digest)) await documents.remove(digest, signal);
}

function imagesOf({ bundles, adoptions }: Assessment): ReadonlySet<Digest> {
  const all = [...bundles.map(({ bundle }) => bundle), ...adoptions.map(({ found }) => found.bundle)];
  return new Set(all.flatMap(({ contents }) => contents.images.map(({ digest }) => digest)));
}

function nowhere(name: string, digest: Digest): AppError {
  return new AppError({
    code: 'media/gone',
    message: `attachment ${name} (${digest}) is on no plugged medium; plug in the one with its bundle`,
    disposition: 'wait',
  });
}
