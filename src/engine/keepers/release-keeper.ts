import type { Assessment } from '../../domain/assess/assess.ts';
import { type ReleaseFolder, releaseFilesPlan, spareAttachments } from '../../domain/decide/wanted-files.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import type { AttachmentStore, BlobSource, DocumentStore, ReleaseFile, ReleaseFiles } from '../../ports/blobs.ts';
import type { Decided, Part } from '../context.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { Jobs } from '../tasks/jobs.ts';
import { documentsOf } from './document-keeper.ts';

const JOB = 'files of a release';

/** Larger files of a release, in all, are installed beside the rounds. */
const SMALL_BYTES = 16 * 1024 * 1024;
/**
 * How long small files may take: a damaged one is read from its medium again, which may be as bad.
 */
const INSTALL_DEADLINE_MS = 30_000;
/** How long a failed installation rests. */
const PAUSES = { firstMs: 1_000, longestMs: 30_000 };
const LARGE_PAUSES = { firstMs: 30_000, longestMs: 600_000 };
const GONE_PAUSE_MS = 1_000;

interface InstallFailure {
  readonly error: unknown;
  readonly count: number;
  readonly retryAt: number;
}

/** A failure is stored with the prefix `what`; the next step follows. */
type Attempt = (what: string, work: () => Promise<void>) => Promise<void>;

/**
 * Installs the attached files of releases, and removes those of retired ones, also from the kept
 * documents. INVARIANT: one change to the folders at a time, so none while large files are being
 * installed.
 */
export class ReleaseKeeper implements Part {
  private reported = '';
  /** Attachments that are also documents of images, and stay. */
  private readonly shared = new Set<Digest>();
  private folders: ReadonlyMap<string, BundleId> = new Map();
  private readonly failed = new Map<BundleId, InstallFailure>();

  constructor(
    private readonly jobs: Jobs,
    private readonly clock: Clock,
    private readonly recorder: EventRecorder,
    private readonly releaseFiles: ReleaseFiles,
    private readonly documents: DocumentStore & AttachmentStore,
    private readonly source: BlobSource,
    private readonly alive: () => void,
    private readonly wantRound: () => void,
  ) {}

  /** Folders at the end of the last round, and whose files each has. */
  installed(): ReadonlyMap<string, BundleId> {
    return this.folders;
  }

  async reconcile({ observed, assessment }: Decided, signal: AbortSignal): Promise<void> {
    if (observed.facts.keepsOnly === true || this.jobs.isRunning(JOB)) return;
    let failure = '';
    const attempt: Attempt = async (what, work) => {
      try {
        await work();
      } catch (error) {
        signal.throwIfAborted();
        failure = `${what}: ${reasonOf(error)}`;
      }
    };
    await attempt("The attached files can't be looked at", () => this.followFolders(assessment, attempt, signal));
    await attempt('Attached files of retired releases stay', () => this.dropSpare(assessment, signal));
    if (failure !== '' && failure !== this.reported) {
      this.recorder.record({ kind: 'filesNotLaid', level: 'warn', message: failure });
    }
    this.reported = failure;
  }

  /** INVARIANT: in this order, since a new folder may have the name of an old one. */
  private async followFolders(assessment: Assessment, attempt: Attempt, signal: AbortSignal): Promise<void> {
    const { releaseFiles, alive, wantRound } = this;
    const plan = releaseFilesPlan(assessment, await releaseFiles.list(signal));
    for (const folder of plan.remove) {
      await attempt(`Files in releases/${folder} stay`, () => releaseFiles.remove(folder, signal));
    }
    for (const entry of plan.install.filter((one) => !isLarge(one))) {
      alive();
      await attempt(notInstalled(entry), () => this.installSmall(entry, signal));
    }
    const after = await releaseFiles.list(signal);
    // Hooks wait for the files of their release.
    if (!isSame(this.folders, after)) wantRound();
    this.folders = after;
    const large = plan.install.filter(isLarge);
    for (const entry of large) {
      const failed = this.failed.get(entry.bundle.bundleId);
      if (failed !== undefined) await attempt(notInstalled(entry), () => Promise.reject(failed.error));
    }
    this.startLarge(large);
  }

  /** @throws the last failure until its pause is over */
  private async installSmall(entry: ReleaseFolder, signal: AbortSignal): Promise<void> {
    const before = this.failed.get(entry.bundle.bundleId);
    if (before !== undefined && this.isWaiting(entry)) throw before.error;
    try {
      await withDeadline('Reading them', INSTALL_DEADLINE_MS, signal, (inner) => this.install(entry, inner));
      this.failed.delete(entry.bundle.bundleId);
    } catch (error) {
      signal.throwIfAborted();
      this.note(entry, error);
      throw error;
    }
  }

  /** The first of these whose pause is over. */
  private startLarge(entries: readonly ReleaseFolder[]): void {
    const next = entries.find((entry) => !this.isWaiting(entry));
    if (next === undefined) return;
    const work = async (signal: AbortSignal) => {
      try {
        await this.install(next, signal);
        this.failed.delete(next.bundle.bundleId);
      } catch (error) {
        this.note(next, error);
      }
    };
    this.jobs.start(JOB, work).catch(() => undefined); // the jobs were stopped
  }

  private isWaiting({ bundle }: ReleaseFolder): boolean {
    return this.clock.monotonic() < (this.failed.get(bundle.bundleId)?.retryAt ?? 0);
  }

  private note(entry: ReleaseFolder, error: unknown): void {
    const { bundleId } = entry.bundle;
    const count = (this.failed.get(bundleId)?.count ?? 0) + 1;
    // A search for a file that no medium has costs nothing.
    const isGone = error instanceof AppError && error.code === 'media/gone';
    const pauseMs = isGone ? GONE_PAUSE_MS : pauseAfter(count, isLarge(entry) ? LARGE_PAUSES : PAUSES);
    this.failed.set(bundleId, { error, count, retryAt: this.clock.monotonic() + pauseMs });
  }

  private async install({ folder, bundle, files }: ReleaseFolder, signal: AbortSignal): Promise<void> {
    const { source, releaseFiles, recorder, documents } = this;
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
    recorder.record({ kind: 'filesInstalled', level: 'info', bundleId: bundle.bundleId, message });
  }

  /**
   * Removes attachments of retired releases. An attachment may also be the config of an image, as
   * only manifests say. They are read when there is something to remove, once for each release.
   */
  private async dropSpare(assessment: Assessment, signal: AbortSignal): Promise<void> {
    const { documents, alive } = this;
    const { shared } = this;
    const spare = spareAttachments(assessment, await documents.list(signal)).filter((digest) => !shared.has(digest));
    if (spare.length === 0) return;
    for (const image of imagesOf(assessment)) {
      alive();
      for (const digest of await documentsOf(image, documents, signal)) if (spare.includes(digest)) shared.add(digest);
    }
    for (const digest of spare) if (!shared.has(digest)) await documents.remove(digest, signal);
  }
}

function isLarge({ files }: ReleaseFolder): boolean {
  return files.reduce((sum, { size }) => sum + size, 0) > SMALL_BYTES;
}

function notInstalled({ bundle }: ReleaseFolder): string {
  return `Files of ${bundleTitle(bundle.payload)} are not installed`;
}

function isSame(one: ReadonlyMap<string, BundleId>, other: ReadonlyMap<string, BundleId>): boolean {
  return one.size === other.size && [...one].every(([folder, bundleId]) => other.get(folder) === bundleId);
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
