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

/** How long the files of one release may take: one that was damaged is read from its medium again, which may be as bad. */
const LAY_DEADLINE_MS = 30_000;

/** Lays the attached files of releases, and takes them away, in the end from among the kept documents too. */
export interface ReleaseKeeper {
  /** Brings the folders in line. What fails is told once, until something else does, and tried again in the next round; only an abort throws. */
  follow(assessment: Assessment, signal: AbortSignal): Promise<void>;
}

/** A keeper that has told nothing yet. */
export function createReleaseKeeper(deps: ReleaseKeeperDependencies): ReleaseKeeper {
  const { releaseFiles, source, documents, recorder, alive } = deps;
  let told = '';
  /** Attachments that are documents of images as well. */
  const stay = new Set<Digest>();
  const lay = async ({ folder, bundle, files }: ReleaseFolder, signal: AbortSignal): Promise<void> => {
    for (const { name, digest } of files) {
      if ((await source.sizeOf(digest, signal)) === undefined) throw nowhere(name, digest);
    }
    const readable = files.map(({ name, digest }) => ({
      name,
      digest,
      read: (on: AbortSignal) => readAll(digest, on),
    }));
    await releaseFiles.lay(folder, bundle.bundleId, readable, signal);
    const message = `Files of ${bundleTitle(bundle.payload)} lie in releases/${folder}: ${files.map(({ name }) => name).join(', ')}`;
    recorder.tell({ kind: 'filesLaid', level: 'info', bundleId: bundle.bundleId, message });
  };
  const readAll = async (digest: Digest, signal: AbortSignal): Promise<Buffer> => {
    const chunks: Buffer[] = [];
    for await (const chunk of source.read(digest, 0, signal)) chunks.push(chunk);
    return Buffer.concat(chunks);
  };
  /** Which configs there are is known from the manifests alone. They are read only when something is to be removed, which happens once a release. */
  const drop = async ({ bundles, adoptions }: Assessment, spare: readonly Digest[], signal: AbortSignal) => {
    const all = [...bundles.map(({ bundle }) => bundle), ...adoptions.map(({ found }) => found.bundle)];
    const images = new Set(all.flatMap(({ contents }) => contents.images.map(({ digest }) => digest)));
    for (const image of images) {
      alive();
      for (const digest of await documentsOf(image, documents, signal)) if (spare.includes(digest)) stay.add(digest);
    }
    for (const digest of spare) if (!stay.has(digest)) await documents.remove(digest);
  };
  return {
    follow: async (assessment, signal) => {
      let failure = '';
      const attempt = async (what: string, work: () => Promise<void>): Promise<void> => {
        try {
          await work();
        } catch (error) {
          signal.throwIfAborted();
          failure = `${what}: ${reasonOf(error)}`;
        }
      };
      await attempt("The attached files can't be looked at", async () => {
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
            withDeadline('Reading them', LAY_DEADLINE_MS, signal, (inner) => lay(entry, inner)),
          );
        }
      });
      await attempt('Attached files of retired releases stay', async () => {
        const spare = spareAttachments(assessment, await documents.list()).filter((digest) => !stay.has(digest));
        if (spare.length > 0) await drop(assessment, spare, signal);
      });
      if (failure !== '' && failure !== told) recorder.tell({ kind: 'filesNotLaid', level: 'warn', message: failure });
      told = failure;
    },
  };
}

function nowhere(name: string, digest: Digest): AppError {
  return new AppError({
    code: 'media/gone',
    message: `attachment ${name} (${digest}) is on no plugged medium; plug in the one with its bundle`,
    disposition: 'wait',
  });
}
