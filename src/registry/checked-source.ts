import { createHash } from 'node:crypto';
import { type Digest, digestFromHex } from '../domain/model/digest.ts';
import { AppError } from '../platform/app-error.ts';
import { type Allocate, oneBuffer } from '../platform/files/file-access.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import type { BlobSource, ChangingBlobSource } from '../ports/blobs.ts';

/** Changes when the file of a blob changes. Undefined when there is no file. */
export type StampOf = (digest: Digest, signal: AbortSignal) => Promise<string | undefined>;

interface Check {
  /** The file had it before it was read. */
  readonly stamp: string | undefined;
  readonly passed: Promise<void>;
}

/**
 * Never sends a damaged blob completely. A read from the first byte is hashed, and the last chunk
 * is sent only if the digest is right. For a read from the middle the whole blob is checked first,
 * once for each version of its file; the last chunk is sent only if the file did not change
 * meanwhile. No chunk is kept while the next one is read, so one buffer is enough, and many clients
 * need little memory. `read` throws `media/blob-damaged` (`reject`) and the errors of the source.
 */
export class CheckedSource implements ChangingBlobSource {
  private readonly checks = new Map<Digest, Check>();

  /** @param life ends the checks, which several reads may share */
  constructor(
    private readonly source: BlobSource,
    private readonly stampOf: StampOf,
    private readonly life: AbortSignal,
  ) {}

  sizeOf(digest: Digest, signal: AbortSignal): Promise<number | undefined> {
    return this.source.sizeOf(digest, signal);
  }

  /** Reports no changes. */
  onChange(): Unsubscribe {
    return () => undefined;
  }

  async *read(digest: Digest, startByte: number, signal: AbortSignal, allocate?: Allocate): AsyncGenerator<Buffer> {
    const { source, stampOf } = this;
    if (startByte === 0) return yield* checked(source, digest, signal, allocate);
    const stamp = await stampOf(digest, signal);
    await this.check(digest, stamp);
    const chunks = source.read(digest, startByte, signal, allocate);
    yield* untilLast(chunks, startByte, await source.sizeOf(digest, signal), async () => {
      const now = await stampOf(digest, signal);
      if (now !== stamp) throw damaged('its file changed while it was read; ask again');
    });
  }

  private check(digest: Digest, stamp: string | undefined): Promise<void> {
    const known = this.checks.get(digest);
    if (known !== undefined && known.stamp === stamp) return known.passed;
    const check = { stamp, passed: readThrough(checked(this.source, digest, this.life, oneBuffer())) };
    this.checks.set(digest, check);
    // A failed check is not cached, because the file may be replaced.
    check.passed.catch(() => {
      if (this.checks.get(digest) === check) this.checks.delete(digest);
    });
    return check.passed;
  }
}

function damaged(message: string): AppError {
  return new AppError({ code: 'media/blob-damaged', message, disposition: 'reject' });
}

async function readThrough(chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const _chunk of chunks);
}

async function* checked(
  source: BlobSource,
  digest: Digest,
  signal: AbortSignal,
  allocate: Allocate | undefined,
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  const hashed = async function* () {
    for await (const chunk of source.read(digest, 0, signal, allocate)) {
      hash.update(chunk);
      yield chunk;
    }
  };
  yield* untilLast(hashed(), 0, await source.sizeOf(digest, signal), async () => {
    const actual = digestFromHex(hash.copy().digest('hex'));
    if (actual !== digest) {
      throw damaged(`its bytes have digest ${actual}: it is damaged; copy the bundle again`);
    }
  });
}

/** Calls `pass` before the chunk that completes `sizeBytes`, or at the end of a shorter stream. */
async function* untilLast(
  chunks: AsyncIterable<Buffer>,
  startByte: number,
  sizeBytes: number | undefined,
  pass: () => Promise<void>,
): AsyncGenerator<Buffer> {
  let position = startByte;
  let isPassed = false;
  for await (const chunk of chunks) {
    position += chunk.length;
    isPassed = position >= (sizeBytes ?? 0);
    if (isPassed) await pass();
    yield chunk;
  }
  if (!isPassed) await pass();
}
