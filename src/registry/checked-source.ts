import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../domain/digest.ts';
import type { BlobSource } from '../engine/ports.ts';
import { AppError } from '../platform/app-error.ts';

/**
 * A source that gives no damaged blob to its end. A whole blob is hashed while it streams, and its last chunk is held back until the digest is
 * right. Who begins in the middle has seen nothing of what comes before: then the blob is read to its end first, once for as long as this
 * source lives.
 *
 * `read` throws `media/blob-damaged` (`reject`) beside what `source` throws.
 *
 * @param life ends the reading ahead, which serves all who wait for it and so outlives each
 */
export function createCheckedSource(source: BlobSource, life: AbortSignal): BlobSource {
  const checks = new Map<Digest, Promise<void>>();
  const check = (digest: Digest): Promise<void> => {
    const known = checks.get(digest);
    if (known !== undefined) return known;
    const reading = readThrough(checked(source, digest, life));
    checks.set(digest, reading);
    // What could not be read, or was damaged, may be another file next time.
    reading.catch(() => checks.delete(digest));
    return reading;
  };
  return {
    sizeOf: source.sizeOf,
    async *read(digest, startByte, signal) {
      if (startByte === 0) {
        yield* checked(source, digest, signal);
        return;
      }
      await check(digest);
      yield* source.read(digest, startByte, signal);
    },
  };
}

async function readThrough(chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const _chunk of chunks);
}

async function* checked(source: BlobSource, digest: Digest, signal: AbortSignal): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  let held: Buffer | undefined;
  for await (const chunk of source.read(digest, 0, signal)) {
    hash.update(chunk);
    if (held !== undefined) yield held;
    held = chunk;
  }
  const actual = digestFromHex(hash.digest('hex'));
  if (actual !== digest) {
    throw new AppError({
      code: 'media/blob-damaged',
      message: `its bytes have digest ${actual}: it is damaged; copy the bundle again`,
      disposition: 'reject',
    });
  }
  if (held !== undefined) yield held;
}
