import type { Documents } from '../../bundle/documents/worker-documents.ts';
import { parseContents, parseStoredContents } from '../../bundle/format/check-contents.ts';
import { parsePayload, parseStoredPayload } from '../../bundle/format/schema.ts';
import type { Trust } from '../../bundle/keys/trust.ts';
import { limits } from '../../bundle/limits.ts';
import { openBundleDirectory } from '../../bundle/read/bundle-directory.ts';
import type { BundleReader } from '../../bundle/read/bundle-reader.ts';
import { readContents, readEnvelope } from '../../bundle/verify/judge-bundle.ts';
import { judgeBundles } from '../../bundle/verify/judge-bundles.ts';
import { bundleIdOf } from '../../bundle/verify/verify-envelope.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { FoundBundle } from '../../domain/model/medium.ts';
import { AppError } from '../../platform/app-error.ts';
import type { BlobSource, SignedBundles } from '../../ports/blobs.ts';
import type { BundleReviver } from '../../store/database/tables/bundle-rows.ts';
import type { SignedFiles } from '../../store/files/signed-files.ts';

interface SignedBundleDependencies {
  readonly files: SignedFiles;
  readonly blobs: Pick<BlobSource, 'sizeOf' | 'read'>;
  readonly readerOf: (bundleId: BundleId) => BundleReader | undefined;
  readonly trust: () => Trust;
  readonly documents: Documents;
}

/** Keeps signed documents, and judges what is kept by the rules for sticks. */
export function createSignedBundles(deps: SignedBundleDependencies): SignedBundles {
  const { files, readerOf } = deps;
  return {
    list: () => files.list(),
    isPlugged: (bundleId) => readerOf(bundleId) !== undefined,
    keep: async (bundleId, signal) => {
      const reader = readerOf(bundleId);
      if (reader === undefined) throw gone(bundleId);
      await files.put(bundleId, await reader.hold(() => signedDocuments(reader, signal)));
    },
    remove: (bundleId) => files.remove(bundleId),
    judge: (bundleId, signal) => judge(deps, bundleId, signal),
    unproven: async (bundleId, signal) => {
      try {
        const reader = readerIn(deps, bundleId);
        const { payload: bytes } = await readEnvelope(reader, signal);
        const payload = parsePayload(bytes);
        const contents = parseContents((await readContents(reader, payload.contents, signal)).bytes, payload.critical);
        return bundleIdOf(bytes) === bundleId
          ? { bundleId, payload, contents, signedBy: [], signerKeyIds: [] }
          : undefined;
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof AppError)) throw error;
        return undefined;
      }
    },
  };
}

/** The envelope is kept unchanged: its signatures cover the payload in it. */
async function signedDocuments(reader: BundleReader, signal: AbortSignal): Promise<ReadonlyMap<string, Buffer>> {
  const payload = parsePayload((await readEnvelope(reader, signal)).payload);
  return new Map([
    ['bundle.dsse.json', await reader.readFile('bundle.dsse.json', limits.envelopeBytes, signal)],
    ['contents.json', (await readContents(reader, payload.contents, signal)).bytes],
    ['index.json', await reader.readFile('index.json', limits.indexBytes, signal)],
  ]);
}

function readerIn({ files, blobs }: SignedBundleDependencies, bundleId: BundleId): BundleReader {
  const path = files.folderOf(bundleId);
  const folder = openBundleDirectory(path);
  return {
    path,
    hold: (run) => run(),
    readFile: folder.readFile,
    sizeOf: (digest, inner) => blobs.sizeOf(digest, inner),
    read: (digest, startByte, inner, allocate) => blobs.read(digest, startByte, inner, allocate),
  };
}

async function judge(deps: SignedBundleDependencies, bundleId: BundleId, signal: AbortSignal): Promise<FoundBundle> {
  const { trust, documents } = deps;
  const reader = readerIn(deps, bundleId);
  const { path } = reader;
  const [found] = await judgeBundles([{ kind: 'bundle', path, reader }], { trust: trust(), documents }, signal);
  if (found === undefined) throw gone(bundleId);
  return found;
}

function gone(bundleId: BundleId): AppError {
  return new AppError({
    code: 'media/gone',
    message: `bundle ${bundleId} is on no plugged medium; plug in the one that has it`,
    disposition: 'wait',
  });
}

/**
 * Parses the documents that the database keeps of an adopted bundle. Their size is not limited
 * again: it was when the bundle was adopted.
 *
 * @throws AppError as `parseStoredPayload()` and `parseStoredContents()`
 */
export const reviveBundle: BundleReviver = ({ payload, contents }) => {
  const read = parseStoredPayload(Buffer.from(payload));
  return { payload: read, contents: parseStoredContents(Buffer.from(contents), read.critical) };
};
