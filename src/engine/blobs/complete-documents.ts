import { parseImageDocument } from '../../bundle/format/oci-schema.ts';
import { limits } from '../../bundle/limits.ts';
import { readImageDocument } from '../../bundle/read/read-image-document.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { digestOf } from '../../platform/digest.ts';
import type { BlobSource, DocumentStore } from '../../ports/blobs.ts';

type Source = Pick<BlobSource, 'sizeOf' | 'read'>;

interface DocumentSources {
  readonly documents: Pick<DocumentStore, 'sizeOf' | 'read' | 'put'>;
  /** In order of preference. */
  readonly sources: readonly Source[];
  readonly onKept: (digest: Digest) => void;
  readonly onRefilled: (digest: Digest) => void;
}

/**
 * Reads the documents of an image from the node's own disk, and restores lost or damaged ones.
 * @returns whether a pull can be answered now: manifest and config are kept
 * @throws AppError `store/…` when a document can't be written; whatever aborted `signal`
 */
export async function completeImage(root: Digest, deps: DocumentSources, signal: AbortSignal): Promise<boolean> {
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
  const own = await wholeIn(documents, digest, signal);
  if (own !== undefined) {
    onKept(digest);
    return own;
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

/** Undefined also when a source can't be read or has other bytes: the next one may be better. */
async function wholeIn(source: Source, digest: Digest, signal: AbortSignal): Promise<Buffer | undefined> {
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

/** Of an index those that `source` has. Below a damaged or absent document nothing is known. */
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
