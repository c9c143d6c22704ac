import { type Digest, parseDigest } from '../../domain/model/digest.ts';
import { digestOf } from '../../platform/digest.ts';
import type { BlobSource } from '../../ports/blobs.ts';

/** Bundle format, limits: no document is larger. */
const DOCUMENT_MAX_BYTES = 4 * 1024 * 1024;

/**
 * Digests of the documents of an image: its manifest or index, manifests of that index which are
 * there, and their configs. Nothing is parsed but what has the digest that its name says; what is
 * damaged or absent is in the answer and ends the walk below it.
 */
export async function documentsOf(root: Digest, source: BlobSource, signal: AbortSignal): Promise<readonly Digest[]> {
  const parsed = await readDocument(root, source, signal);
  if (parsed === undefined) return [root];
  const config = digestIn(parsed.config);
  const children = Array.isArray(parsed.manifests) ? parsed.manifests.map(digestIn) : [];
  const below: Digest[] = config === undefined ? [] : [config];
  for (const child of children) {
    // An index names the manifests of all platforms, a bundle has but one of them.
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
