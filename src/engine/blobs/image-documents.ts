import { readImageDocument } from '../../bundle/read/read-image-document.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { BlobSource } from '../../ports/blobs.ts';

/** The documents of one manifest of an image. */
interface ManifestDocuments {
  /** The manifest, its config, and the index above it. */
  readonly documents: readonly Digest[];
  /** Undefined where the manifest is damaged or absent. */
  readonly layers?: ReadonlySet<Digest>;
}

/**
 * The documents of an image, for its manifest, or for each manifest of its index that `source` has:
 * a runtime chooses one of them. Only bytes with the right digest are parsed. A damaged or absent
 * document is in the result, but not the documents below it.
 */
export async function manifestsOf(root: Digest, source: BlobSource, signal: AbortSignal): Promise<ManifestDocuments[]> {
  const document = (await readImageDocument(source, root, signal))?.document;
  if (document === undefined) return [{ documents: [root] }];
  if (document.kind === 'manifest') {
    const layers = new Set(document.layers.map(({ digest }) => digest));
    return [{ documents: [root, document.config.digest], layers }];
  }
  const below: ManifestDocuments[] = [];
  for (const { digest } of document.manifests) {
    // An index names the manifests of all platforms; a bundle has those of one.
    if ((await source.sizeOf(digest, signal)) === undefined) continue;
    const found = await manifestsOf(digest, source, signal);
    below.push(...found.map((one) => ({ ...one, documents: [root, ...one.documents] })));
  }
  return below.length === 0 ? [{ documents: [root] }] : below;
}

/** Digests of all of {@link manifestsOf}, each once. */
export async function documentsOf(root: Digest, source: BlobSource, signal: AbortSignal): Promise<readonly Digest[]> {
  const manifests = await manifestsOf(root, source, signal);
  return [...new Set(manifests.flatMap(({ documents }) => documents))];
}
