import type { BlobSource, ChangingBlobSource } from '../engine/ports.ts';
import { AppError } from '../platform/app-error.ts';

/** Several blob sources as one: the first that has a blob gives it. `steady` ones never lose what they have, `changing` ones come and go. */
export function createBlobUnion(
  steady: readonly BlobSource[],
  ...changing: readonly ChangingBlobSource[]
): ChangingBlobSource {
  const sources: readonly BlobSource[] = [...steady, ...changing];
  return {
    onChange: (listener) => {
      const stops = changing.map((source) => source.onChange(listener));
      return () => {
        for (const stop of stops) stop();
      };
    },
    sizeOf: async (digest, signal) => {
      for (const source of sources) {
        const sizeBytes = await source.sizeOf(digest, signal);
        if (sizeBytes !== undefined) return sizeBytes;
      }
      return undefined;
    },
    async *read(digest, startByte, signal) {
      for (const source of sources) {
        if ((await source.sizeOf(digest, signal)) === undefined) continue;
        yield* source.read(digest, startByte, signal);
        return;
      }
      throw new AppError({
        code: 'media/gone',
        message: `blob ${digest} is on no plugged medium; plug in the stick that carries it`,
        disposition: 'wait',
      });
    },
  };
}
