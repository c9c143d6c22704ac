import { type ImageDocument, mediaTypes } from '../bundle/format/oci-schema.ts';
import type { Referral } from '../bundle/format/referrers.ts';
import { readImageDocument } from '../bundle/read/read-image-document.ts';
import type { Digest } from '../domain/model/digest.ts';
import { AppError } from '../platform/app-error.ts';
import { together } from '../platform/subscription.ts';
import type { BlobCopy, BlobSource, BlobUnion, ChangingBlobSource } from '../ports/blobs.ts';

interface UnionParts {
  /** On the node's own disk. They remove a bad blob when it is read completely. */
  readonly onDisk: readonly (BlobSource & Partial<ChangingBlobSource>)[];
  readonly media: BlobUnion;
}

const OWN_LABEL = "this node's own disk";

/** The first source that has a blob is used: the node's own disk, then the media. */
export function createBlobUnion({ onDisk, media }: UnionParts): BlobUnion {
  const sources: readonly BlobSource[] = [...onDisk, media];
  return {
    onChange: (listener) => together([...onDisk, media].map((source) => source.onChange?.(listener))),
    copiesOf: async (digest, signal) => {
      const copies: BlobCopy[] = [];
      for (const source of onDisk) {
        if ((await source.sizeOf(digest, signal)) === undefined) continue;
        const read: BlobCopy['read'] = (startByte, inner, allocate) => source.read(digest, startByte, inner, allocate);
        copies.push({ label: OWN_LABEL, isTrusted: true, read, distrust: () => undefined });
      }
      return [...copies, ...(await media.copiesOf(digest, signal))];
    },
    sizeOf: async (digest, signal) => {
      for (const source of sources) {
        const sizeBytes = await source.sizeOf(digest, signal);
        if (sizeBytes !== undefined) return sizeBytes;
      }
      return undefined;
    },
    async *read(digest, startByte, signal, allocate) {
      for (const source of onDisk) {
        let isBegun = false;
        try {
          for await (const chunk of source.read(digest, startByte, signal, allocate)) {
            isBegun = true;
            yield chunk;
          }
          return;
        } catch (error) {
          // After the first chunk the caller must resume, because it knows the offset.
          if (isBegun || !(error instanceof AppError) || error.code !== 'media/gone') throw error;
        }
      }
      yield* media.read(digest, startByte, signal, allocate);
    },
  };
}

/** One repository: a catalog entry of the daemon, or of `stickpin bundle serve`. */
export interface Offer {
  readonly tags: ReadonlyMap<string, Digest>;
  /** Sizes in bytes of layers that are offered even while no source has them. */
  readonly layers: ReadonlyMap<Digest, number>;
  /** Whether layers that are not in `layers` wait for their medium. Default: yes. */
  readonly waitsForAll?: boolean;
  /** Undefined: all that the source has. */
  readonly digests?: ReadonlySet<Digest>;
  /** For `manifestAnswer`. Undefined: every manifest is sent to everybody. */
  readonly images?: { readonly references: ReadonlyMap<Digest, string>; readonly arriving: ReadonlySet<Digest> };
  /** By subject. Default: those in the index under the referrers tag. */
  readonly referrers?: ReadonlyMap<Digest, readonly Referral[]>;
  /** `sha256-<hex>`, for clients without the referrers API. In no list of tags. */
  readonly referrersTags?: ReadonlyMap<string, Digest>;
}

interface TagPage {
  readonly tags: readonly string[];
  /** Undefined on the last page. */
  readonly last: string | undefined;
}

/** distribution-spec 1.1, "Listing Tags": in case-insensitive lexical order, after `last`. */
export function pageOfTags(tags: Iterable<string>, limit: number | undefined, last: string | undefined): TagPage {
  const behind = [...tags].sort(lexically).filter((tag) => last === undefined || lexically(tag, last) > 0);
  const page = limit === undefined ? behind : behind.slice(0, limit);
  return { tags: page, last: page.length > 0 && page.length < behind.length ? page.at(-1) : undefined };
}

function lexically(a: string, b: string): number {
  return compare(a.toLowerCase(), b.toLowerCase()) || compare(a, b);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

interface ManifestBody {
  readonly bytes: Buffer;
  readonly mediaType: string;
  /** Undefined when it has another digest, or is no manifest. */
  readonly document: ImageDocument | undefined;
}

/** Its size is bounded. The client refuses a wrong digest. @throws AppError as a read */
export async function readManifest(
  source: BlobSource,
  digest: Digest,
  signal: AbortSignal,
): Promise<ManifestBody | undefined> {
  const read = await readImageDocument(source, digest, signal);
  if (read === undefined) return undefined;
  const { bytes, document } = read;
  return { bytes, mediaType: document?.mediaType ?? mediaTypes.ociManifest, document };
}
