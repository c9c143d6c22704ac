import { AppError } from '../platform/app-error.ts';
import type { BlobCopy, BlobSource, BlobUnion, ChangingBlobSource } from '../ports/blobs.ts';

/** The sources of a union. */
export interface UnionParts {
  /** The stores on the node's own disk. They remove a bad blob when it is read completely. */
  readonly own: readonly (BlobSource & Partial<ChangingBlobSource>)[];
  /** All media. */
  readonly media: BlobUnion;
}

/** The label of the node's own disk. */
const OWN_LABEL = "this node's own disk";

/**
 * Several blob sources as one. The first source that has a blob is used: the node's own disk, then
 * the media.
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
      for (const source of own) {
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
