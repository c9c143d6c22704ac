import type { Assessment } from '../../domain/assess/assess.ts';
import { type ReleaseFolder, releaseFilesPlan, spareAttachments } from '../../domain/decide/release-files.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { BlobSource, DocumentStore } from '../../ports/blobs.ts';
import type { ReleaseFiles } from '../../ports/release-files.ts';
import { documentsOf } from '../blobs/image-documents.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';

/** What {@link createReleaseKeeper} needs. */
export interface ReleaseKeeperDependencies {
  readonly releaseFiles: ReleaseFiles;
  readonly source: BlobSource;
  /** Where attachments are kept, among manifests and configs. */
  readonly documents: DocumentStore;
  readonly recorder: EventRecorder;
  /** Called before each release, for the watchdog. */
  readonly alive: () => void;
}

/**
 * How long the files of one release may take: one that was damaged is read from its medium again,
 * which may be as bad.
 */
const LAY_DEADLINE_MS = 30_000;

/**
 * Installs the attached files of releases and removes them, in the end from the kept documents too.
 */
export interface ReleaseKeeper {
  /**
   * Brings the folders in line. What fails is reported once, until something else fails, and tried
   * again in the next round. Only an abort throws.
   */
  follow(assessment: Assessment, signal: AbortSignal): Promise<void>;
}

/** What a keeper works on, and what it remembers. */
interface Keeping extends ReleaseKeeperDependencies {
  /** The failure that was reported last; empty when there was none since. */
  reported: string;
  /** Attachments that are documents of images as well, and stay. */
  readonly shared: Set<Digest>;
}

/**
 * Does one step. A failure of it is remembered under `what`, and the next step is done all the
 * same.
 */
type Attempt = (what: string, work: () => Promise<void>) => Promise<void>;

/** A keeper that has reported nothing yet. */
export function createReleaseKeeper(deps: ReleaseKeeperDependencies): ReleaseKeeper {
  const keeping: Keeping = { ...deps, reported: '', shared: new Set() };
  return { follow: (assessment, signal) => follow(keeping, assessment, signal) };
}

async function follow(keeping: Keeping, assessment: Assessment, signal: AbortSignal): Promise<void> {
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
 * INVARIANT: what is not wanted goes before folders are moved, and these before new ones are made.
 * A folder may take the name of another.
 */
async function followFolders(
  keeping: Keeping,
  assessment: Assessment,
  attempt: Attempt,
  signal: AbortSignal,
): Promise<void> {
  const { releaseFiles, alive } = keeping;
  const plan = releaseFilesPlan(assessment, await releaseFiles.list(signal));
  for (const folder of plan.remove) {
    await attempt(`Files in releases/${folder} stay`, () => releaseFiles.remove(folder, signal));
  }
  for (const { from, to } of plan.move) {
    await attempt(`Files in releases/${from} stay there`, () => releaseFiles.move(from, to, signal));
  }
  for (const entry of plan.lay) {
    alive();
    const what = `Files of ${bundleTitle(entry.bundle.payload)}`;
    await attempt(`${what} are not laid`, () =>
      withDeadline('Reading them', LAY_DEADLINE_MS, signal, (inner) => install(keeping, entry, inner)),
    );
  }
}

async function install(
  { source, releaseFiles, recorder }: Keeping,
  { folder, bundle, files }: ReleaseFolder,
  signal: AbortSignal,
): Promise<void> {
  for (const { name, digest } of files) {
    if ((await source.sizeOf(digest, signal)) === undefined) throw nowhere(name, digest);
  }
  const readable = files.map(({ name, digest }) => ({
    name,
    digest,
    read: (inner: AbortSignal) => readAll(source, digest, inner),
  }));
  await releaseFiles.lay(folder, bundle.bundleId, readable, signal);
  const names = files.map(({ name }) => name).join(', ');
  const message = `Files of ${bundleTitle(bundle.payload)} lie in releases/${folder}: ${names}`;
  recorder.tell({ kind: 'filesLaid', level: 'info', bundleId: bundle.bundleId, message });
}

async function readAll(source: BlobSource, digest: Digest, signal: AbortSignal): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of source.read(digest, 0, signal)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/**
 * Removes attachments of retired releases from the kept documents. Only the manifests tell which of
 * them are configs of images as well. They are read only when something is to be removed, which
 * happens once a release.
 */
async function dropSpare(keeping: Keeping, assessment: Assessment, signal: AbortSignal): Promise<void> {
  const { documents, shared, alive } = keeping;
  const spare = spareAttachments(assessment, await documents.list()).filter((digest) => !shared.has(digest));
  if (spare.length === 0) return;
  for (const image of imagesOf(assessment)) {
    alive();
    for (const digest of await documentsOf(image, documents, signal)) if (spare.includes(digest)) shared.add(digest);
  }
  for (const digest of spare) if (!shared.has(digest)) await documents.remove(digest);
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
