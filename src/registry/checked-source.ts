import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../domain/model/digest.ts';
import { AppError } from '../platform/app-error.ts';
import type { BlobSource } from '../ports/blobs.ts';

/**
 * Tells when the file of a blob changed: two texts are the same only while it did not. Undefined
 * when there is no such file.
 */
export type StampOf = (digest: Digest, signal: AbortSignal) => Promise<string | undefined>;

/** What one check has found out. */
interface Check {
  /** Of the file, from before it was read. */
  readonly stamp: string | undefined;
  readonly passed: Promise<void>;
}

/**
 * A source that gives no damaged blob to its end. A whole blob is hashed while it streams, and its
 * last chunk is held back until the digest is right. Who begins in the middle has seen nothing of
 * what comes before: then the blob is read to its end first, once for as long as its file stays
 * what it was. The last chunk of such a part is held back until it is known that the file did not
 * change meanwhile.
 *
 * `read` throws `media/blob-damaged` (`reject`) beside what `source` throws.
 *
 * @param life ends the reading ahead, which serves all who wait for it and so outlives each
 */
export function createCheckedSource(source: BlobSource, stampOf: StampOf, life: AbortSignal): BlobSource {
  const checks = new Map<Digest, Check>();
  const check = (digest: Digest, stamp: string | undefined): Promise<void> => {
    const known = checks.get(digest);
    if (known !== undefined && known.stamp === stamp) return known.passed;
    const own = { stamp, passed: readThrough(checked(source, digest, life)) };
    checks.set(digest, own);
    // What could not be read, or was damaged, may be another file next time.
    own.passed.catch(() => {
      if (checks.get(digest) === own) checks.delete(digest);
    });
    return own.passed;
  };
  return {
    sizeOf: source.sizeOf,
    async *read(digest, startByte, signal) {
      if (startByte === 0) {
        yield* checked(source, digest, signal);
        return;
      }
      const stamp = await stampOf(digest, signal);
      await check(digest, stamp);
      let held: Buffer | undefined;
      for await (const chunk of source.read(digest, startByte, signal)) {
        if (held !== undefined) yield held;
        held = chunk;
      }
      if ((await stampOf(digest, signal)) !== stamp) throw damaged('its file changed while it was read; ask again');
      if (held !== undefined) yield held;
    },
  };
}

function damaged(message: string): AppError {
  return new AppError({ code: 'media/blob-damaged', message, disposition: 'reject' });
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
    throw damaged(`its bytes have digest ${actual}: it is damaged; copy the bundle again`);
  }
  if (held !== undefined) yield held;
}
