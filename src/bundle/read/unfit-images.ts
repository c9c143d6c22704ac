import type { Image } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import { entriesForPlatform, indexMediaTypes } from '../format/oci-schema.ts';
import { isUnfitForAll, type Unfit, unfitIndex, unfitManifest, unfitText } from '../format/runtime-rules.ts';
import { limits } from '../limits.ts';
import { type DocumentSource, readImageDocument } from './read-image-document.ts';

/**
 * Why some runtimes can't use an image, from its documents for `linux/arch`. Absent and damaged
 * documents give no reasons.
 * @throws AppError `media/gone`, `media/read`
 */
export async function unfitOf(
  { digest, mediaType }: Pick<Image, 'digest' | 'mediaType'>,
  arch: string,
  source: DocumentSource,
  signal: AbortSignal,
  depth = 1,
): Promise<Unfit[]> {
  const document = (await readImageDocument(source, digest, signal))?.document;
  if (document === undefined || (document.kind === 'index') !== indexMediaTypes.has(mediaType)) return [];
  if (document.kind === 'manifest') return unfitManifest(document, mediaType);
  const chosen = entriesForPlatform(document, arch);
  // It is enough to name one nested index.
  const found = unfitIndex(document, arch, depth === 1 ? chosen : []);
  if (depth === limits.indexDepth) return found;
  for (const entry of chosen) found.push(...(await unfitOf(entry, arch, source, signal, depth + 1)));
  return [...new Map(found.map((one) => [one.why, one])).values()];
}

export interface UnfitImages {
  /** A sentence for each reason of an image. */
  readonly warnings: readonly string[];
  /** The fault of the first image that no runtime can use. */
  readonly fault: string | undefined;
}

/** @throws as {@link unfitOf} */
export async function findUnfit(
  images: readonly Image[],
  arch: string,
  source: DocumentSource,
  signal: AbortSignal,
): Promise<UnfitImages> {
  const warnings: string[] = [];
  let fault: string | undefined;
  for (const image of images) {
    const unfit = await unfitOf(image, arch, source, signal);
    const lines = unfit.map((one) => `${nameOf(image)}: ${unfitText(one)}`);
    if (isUnfitForAll(unfit)) fault ??= `no container runtime can use an image: ${lines.join('; ')}`;
    warnings.push(...lines);
  }
  return { warnings, fault };
}

/** The person who made the bundle knows the tag. */
function nameOf({ reference, tags }: Image): string {
  return tags[0] ?? reference;
}

/** Documents that are at hand, as those of a bundle that is being made. */
export function documentsIn(documents: ReadonlyMap<Digest, Buffer>): DocumentSource {
  return {
    sizeOf: async (digest) => documents.get(digest)?.length,
    read: async function* (digest) {
      yield documents.get(digest) ?? Buffer.alloc(0);
    },
  };
}
