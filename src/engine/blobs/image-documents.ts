import { type Digest, parseDigest } from '../../domain/model/digest.ts';
import { digestOf } from '../../platform/digest.ts';
import type { BlobSource } from '../../ports/blobs.ts';

/** The largest document (docs/bundle-format.md, limits). */
const DOCUMENT_MAX_BYTES = 4 * 1024 * 1024;

/**
 * Digests of the documents of an image: its manifest or index, those manifests of the index that
 * `source` has, and their configs. Only bytes with the right digest are parsed. A damaged or absent
 * document is in the result, but not the documents below it.
 */
export async function documentsOf(root: Digest, source: BlobSource, signal: AbortSignal): Promise<readonly Digest[]> {
  const parsed = await readDocument(root, source, signal);
  if (parsed === undefined) return [root];
  const config = digestIn(parsed.config);
  const children = Array.isArray(parsed.manifests) ? parsed.manifests.map(digestIn) : [];
  const below: Digest[] = config === undefined ? [] : [config];
  for (const child of children) {
    // An index names the manifests of all platforms; a bundle has only one of them.
    if (child === undefined || (await source.sizeOf(child, signal)) === undefined) continue;
    below.push(...(await documentsOf(child, source, signal)));
  }
  return [root, ...below];
}

interface Document {
  readonly config?: unknown;
  readonly manifests?: unknown;
}

async function readDocument(digest: Digest, source: BlobSource, signal: AbortSignal): Promise<Document | undefined> {
  const sizeBytes = await source.sizeOf(digest, signal);
  if (sizeBytes === undefined || sizeBytes > DOCUMENT_MAX_BYTES) return undefined;
  const chunks: Buffer[] = [];
  for await (const chunk of source.read(digest, 0, signal)) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  if (digestOf(bytes) !== digest) return undefined;
  try {
    const parsed: unknown = JSON.parse(bytes.toString('utf8'));
    return typeof parsed === 'object' && parsed !== null ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function digestIn(descriptor: unknown): Digest | undefined {
  if (typeof descriptor !== 'object' || descriptor === null || !('digest' in descriptor)) return undefined;
  return typeof descriptor.digest === 'string' ? parseDigest(descriptor.digest) : undefined;
}
