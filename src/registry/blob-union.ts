import { AppError } from '../platform/app-error.ts';
import type { BlobCopy, BlobSource, BlobUnion, ChangingBlobSource } from '../ports/blobs.ts';

/** What a union is made of. */
export interface UnionParts {
  /** The node's own disk. What is found bad there is removed by it when it is read to its end. */
  readonly own: readonly (BlobSource & Partial<ChangingBlobSource>)[];
  /** All media. */
  readonly media: BlobUnion;
}

/** What the node's own disk is called as the place of a blob. */
const OWN_LABEL = "this node's own disk";

/**
 * Several blob sources as one: the first that has a blob gives it, the node's own disk before the
 * media.
 */
export function createBlobUnion({ own, media }: UnionParts): BlobUnion {
  const sources: readonly BlobSource[] = [...own, media];
  return {
    onChange: (listener) => {
      const stops = [...own.map((source) => source.onChange?.(listener)), media.onChange(listener)];
      return () => {
        for (const stop of stops) stop?.();
      };
    },
    copiesOf: async (digest, signal) => {
      const copies: BlobCopy[] = [];
      for (const source of own) {
        if ((await source.sizeOf(digest, signal)) === undefined) continue;
        const read: BlobCopy['read'] = (startByte, inner) => source.read(digest, startByte, inner);
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
      for (const source of own) {
        let isBegun = false;
        try {
          for await (const chunk of source.read(digest, startByte, signal, allocate)) {
            isBegun = true;
            yield chunk;
          }
          return;
        } catch (error) {
          // What was begun is gone on with by whoever reads: it knows the byte.
          if (isBegun || !(error instanceof AppError) || error.code !== 'media/gone') throw error;
        }
      }
      yield* media.read(digest, startByte, signal, allocate);
    },
  };
}
