import { readImageDocument } from '../../bundle/read/read-image-document.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { BlobSource } from '../../ports/blobs.ts';

/**
 * Digests of the documents of an image: its manifest or index, those manifests of the index that
 * `source` has, and their configs. Only bytes with the right digest are parsed. A damaged or absent
 * document is in the result, but not the documents below it.
 */
export async function documentsOf(root: Digest, source: BlobSource, signal: AbortSignal): Promise<readonly Digest[]> {
  const document = (await readImageDocument(source, root, signal))?.document;
  if (document === undefined) return [root];
  if (document.kind === 'manifest') return [root, document.config.digest];
  const below: Digest[] = [];
  for (const { digest } of document.manifests) {
    // An index names the manifests of all platforms; a bundle has only one of them.
    if ((await source.sizeOf(digest, signal)) === undefined) continue;
    below.push(...(await documentsOf(digest, source, signal)));
  }
  return [root, ...below];
}
