import type { Adoption } from '../../domain/adoption/unknown-bundles.ts';
import type { Attachment } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { Kept } from '../../domain/state/memory.ts';
import { AppError } from '../../platform/app-error.ts';
import { inOrder } from '../../platform/async/concurrency.ts';
import type { AttachmentStore, BlobSource, DocumentStore } from '../../ports/blobs.ts';

/** The source and the store of documents. */
export interface DocumentKeeping {
  /** Manifests, configs and attachments of adopted bundles. */
  readonly documents: Pick<DocumentStore, 'sizeOf' | 'put'> & Pick<AttachmentStore, 'putStream'>;
  /** All sources of blobs. */
  readonly source: Pick<BlobSource, 'read'>;
}

/**
 * Number of documents that are written in parallel. Each write syncs the disk and holds one of
 * libuv's four threads; one thread stays free for other work.
 */
const DOCUMENTS_AT_ONCE = 3;

/**
 * Copies manifests, configs and attachments of a bundle from its medium to the store, as far as the
 * medium has them. Documents that the store has are not written again.
 *
 * @param onKept called at the start and after each document
 * @throws AppError of the medium or the store; whatever aborted `signal`
 */
export async function keepDocuments(
  { bundle, documents, missing }: Adoption['found'],
  deps: DocumentKeeping,
  signal: AbortSignal,
  onKept: (kept: Kept) => void = () => undefined,
): Promise<void> {
  const lacking = new Set(missing.map((blob) => blob.digest));
  const own = documents.filter((digest) => !lacking.has(digest));
  const attachments = (bundle.payload.attachments ?? []).filter(({ digest }) => !lacking.has(digest));
  const total = own.length + attachments.length;
  onKept({ done: 0, total });
  let done = 0;
  const count = () => onKept({ done: ++done, total });
  for await (const _kept of inOrder(own, DOCUMENTS_AT_ONCE, (digest) => keepDocument(digest, deps, signal))) count();
  for (const attachment of attachments) await keepAttachment(attachment, deps, signal).then(count);
}

/** The same bundle without attachments. Those of a retired release are not kept. */
export function withoutAttachments(found: Adoption['found']): Adoption['found'] {
  const { attachments: _gone, ...payload } = found.bundle.payload;
  return { ...found, bundle: { ...found.bundle, payload } };
}

/**
 * Ignores a digest that does not match: only the size of an attachment was checked before. The
 * damage is reported when the files are installed.
 */
async function keepAttachment({ digest, size }: Attachment, deps: DocumentKeeping, signal: AbortSignal): Promise<void> {
  const { documents, source } = deps;
  try {
    if ((await documents.sizeOf(digest, signal)) !== undefined) return;
    await documents.putStream(
      { digest, sizeBytes: size },
      (startByte) => source.read(digest, startByte, signal),
      signal,
    );
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'store/blob') throw error;
  }
}

async function keepDocument(
  digest: Digest,
  { documents, source }: DocumentKeeping,
  signal: AbortSignal,
): Promise<void> {
  if ((await documents.sizeOf(digest, signal)) !== undefined) return;
  const chunks: Buffer[] = [];
  for await (const chunk of source.read(digest, 0, signal)) chunks.push(chunk);
  await documents.put(digest, Buffer.concat(chunks), signal);
}
