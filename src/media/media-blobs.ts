import { createHash } from 'node:crypto';
import { limits } from '../bundle/limits.ts';
import { type Digest, digestFromHex } from '../domain/model/digest.ts';
import { AppError, reasonOf } from '../platform/app-error.ts';
import { linkSignals, untilAborted, withEither } from '../platform/async/abort.ts';
import type { Allocate } from '../platform/files/chunk-buffer.ts';
import type { Log } from '../platform/log.ts';
import { messageIds } from '../platform/message-ids.ts';
import { listen } from '../platform/subscription.ts';
import type { BlobCopy, BlobUnion, CopyFault } from '../ports/blobs.ts';
import { candidatesFor, distrust, type MediaBlobs, type MediumSource } from './medium-sources.ts';

/** All blobs of media as one source. */
export function mediaBlobUnion(blobs: MediaBlobs): BlobUnion {
  return {
    sizeOf: async (digest, signal) => (await findSource(blobs, digest, signal))?.size,
    read: (digest, startByte, signal, allocate) => readAnywhere(blobs, digest, startByte, signal, allocate),
    copiesOf: (digest, signal) => copiesOf(blobs, digest, signal),
    onChange: (listener) => listen(blobs.listeners, listener),
  };
}

async function findSource(
  blobs: MediaBlobs,
  digest: Digest,
  signal: AbortSignal,
): Promise<{ source: MediumSource; size: number } | undefined> {
  for (const source of candidatesFor(blobs, digest)) {
    const size = await sizeIn(source, digest, signal);
    if (size !== undefined) return { source, size };
  }
  return undefined;
}

async function copiesOf(blobs: MediaBlobs, digest: Digest, signal: AbortSignal): Promise<readonly BlobCopy[]> {
  const holders = candidatesFor(blobs, digest);
  const sizes = await Promise.all(holders.map((source) => sizeIn(source, digest, signal)));
  return holders.filter((_, at) => sizes[at] !== undefined).map((source) => copyIn(blobs, source, digest));
}

function copyIn(blobs: MediaBlobs, source: MediumSource, digest: Digest): BlobCopy {
  const file = source.bundle.fileOf?.(digest);
  return {
    label: source.plugged.label,
    ...(file !== undefined && { file }),
    isTrusted: !source.faults.has(digest),
    read: (startByte, signal, allocate) => readFrom(blobs, source, { digest, startByte }, signal, allocate),
    distrust: (fault) => distrust(blobs, source, digest, fault),
  };
}

/**
 * A stream from the first source that has the blob. After a failed read, the caller gets the rest
 * from another medium, if one has it.
 */
async function* readAnywhere(
  blobs: MediaBlobs,
  digest: Digest,
  startByte: number,
  signal: AbortSignal,
  allocate: Allocate | undefined,
): AsyncGenerator<Buffer, void, undefined> {
  const found = await findSource(blobs, digest, signal);
  // A stream that began on another medium must not continue with bytes that are known to be wrong.
  const isUseless = startByte > 0 && found?.source.faults.get(digest) === 'damaged';
  if (found === undefined || isUseless) throw nowhere(digest);
  const { source, size: sizeBytes } = found;
  const chunks = readFrom(blobs, source, { digest, startByte }, signal, allocate);
  const isChecked = source.plugged.peer !== undefined && startByte === 0 && sizeBytes <= limits.manifestBytes;
  let fault: CopyFault = 'unreadable';
  const isWrong = () => {
    fault = 'damaged';
  };
  try {
    yield* isChecked ? checked(chunks, digest, isWrong) : whole(chunks, startByte, sizeBytes);
  } catch (error) {
    if (isFaultOfCopy(source, error)) await noteFault(blobs, source, { digest, fault, error }, signal);
    throw error;
  }
}

/**
 * The same chunks, with an error at the end when they are another blob. Then another source is used
 * for it, so that a node that was taken over can't keep this one from its documents.
 */
async function* checked(
  chunks: AsyncIterable<Buffer>,
  digest: Digest,
  isWrong: () => void,
): AsyncGenerator<Buffer, void, undefined> {
  const hash = createHash('sha256');
  for await (const chunk of chunks) {
    hash.update(chunk);
    yield chunk;
  }
  const actual = digestFromHex(hash.digest('hex'));
  if (actual === digest) return;
  isWrong();
  const message = `its bytes have the digest ${actual}`;
  throw new AppError({ code: 'media/read', message, disposition: 'retry' });
}

/** The same chunks, with an error at the end when the blob has more of them. */
async function* whole(
  chunks: AsyncIterable<Buffer>,
  startByte: number,
  sizeBytes: number,
): AsyncGenerator<Buffer, void, undefined> {
  let position = startByte;
  for await (const chunk of chunks) {
    position += chunk.length;
    yield chunk;
  }
  if (position >= sizeBytes) return;
  const message = `it ended after ${position} of ${sizeBytes} bytes`;
  throw new AppError({ code: 'media/read', message, disposition: 'retry' });
}

/**
 * Whether a failed read is the fault of the copy. A node that can be read and does not have what it
 * lists is not asked first again, while another one has it.
 */
function isFaultOfCopy({ plugged, gone }: MediumSource, error: unknown): error is AppError {
  if (!(error instanceof AppError)) return false;
  if (error.code === 'media/read') return true;
  return error.code === 'media/gone' && !gone.aborted && plugged.peer?.().isReady === true;
}

/**
 * Marks a blob as bad in a source, and logs once which source is used instead. Nobody need be told
 * of a stick that was just taken out of another node.
 */
async function noteFault(
  blobs: MediaBlobs,
  source: MediumSource,
  { digest, fault, error }: { readonly digest: Digest; readonly fault: CopyFault; readonly error: AppError },
  signal: AbortSignal,
): Promise<void> {
  if (source.faults.has(digest)) return;
  distrust(blobs, source, digest, fault);
  if (error.code === 'media/gone') return;
  const next = (await findSource(blobs, digest, signal))?.source;
  if (next !== undefined && !next.faults.has(digest)) tellChange(blobs.log, digest, source, next, error);
}

function tellChange(
  log: Pick<Log, 'warn'>,
  digest: Digest,
  from: MediumSource,
  to: MediumSource,
  error: unknown,
): void {
  const [bad, good] = [from.plugged.label, to.plugged.label];
  const where = bad === good ? `another copy on ${good}` : good;
  const file = from.bundle.fileOf?.(digest);
  // The image that the runtime pulls is not known here.
  const fields = { messageId: messageIds.blobDamaged, medium: bad, digest, file, image: 'not known', err: error };
  const fileThere = file === undefined ? '' : ` File on ${bad}: ${file}.`;
  log.warn(
    fields,
    `Blob ${digest} can't be read from ${bad}: ${reasonOf(error)}. It is taken from ${where} instead.${fileThere}`,
  );
}

/** A source that fails counts as not having the blob, because the next one may have it. */
async function sizeIn(source: MediumSource, digest: Digest, signal: AbortSignal): Promise<number | undefined> {
  try {
    return await withEither([signal, source.gone], (both) => source.bundle.blobs.sizeOf(digest, both));
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}

/**
 * The stream of one source. It ends at once when the medium is unplugged, even while a read hangs
 * in the removed device. The source closes its file under the same signal.
 */
async function* readFrom(
  { streams }: MediaBlobs,
  source: MediumSource,
  { digest, startByte }: { readonly digest: Digest; readonly startByte: number },
  signal: AbortSignal,
  allocate?: Allocate,
): AsyncGenerator<Buffer, void, undefined> {
  const { mediumId } = source.plugged;
  const count = (change: 1 | -1) => streams.set(mediumId, (streams.get(mediumId) ?? 0) + change);
  count(1);
  const { signal: both, release } = linkSignals([signal, source.gone]);
  const chunks = source.bundle.blobs.read(digest, startByte, both, allocate)[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await untilAborted(chunks.next(), both);
      if (next.done === true) return;
      yield next.value;
    }
  } catch (error) {
    source.gone.throwIfAborted();
    signal.throwIfAborted();
    // The read error comes first: reads from an unplugged stick fail at once, and udev reports it a
    // moment later.
    if (!(await source.plugged.isThere(signal))) throw goneWhileReading(source, digest, error);
    throw error;
  } finally {
    count(-1);
    // Not awaited, because a read may hang.
    void Promise.resolve(chunks.return?.())
      .catch(() => undefined)
      .finally(release);
  }
}

function nowhere(digest: Digest): AppError {
  return new AppError({
    code: 'media/gone',
    message: `No medium that is plugged in has the blob ${digest}; plug in the one with its bundle`,
    disposition: 'wait',
  });
}

function goneWhileReading(source: MediumSource, digest: Digest, cause: unknown): AppError {
  return new AppError({
    code: 'media/gone',
    message:
      source.plugged.peer === undefined
        ? `${source.plugged.label} was removed while ${digest} was read; plug it in again to continue`
        : `${source.plugged.label} stopped giving ${digest}; it goes on when a node or a stick has it`,
    disposition: 'wait',
    cause,
  });
}
