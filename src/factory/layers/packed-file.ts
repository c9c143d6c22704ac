import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createGunzip, createZstdDecompress } from 'node:zlib';
import { bundleError } from '../../bundle/bundle-error.ts';
import { limits } from '../../bundle/limits.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { StickFilesystem } from '../../domain/model/machine.ts';
import { AppError, reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { formatBytes } from '../../platform/sizes.ts';
import { type SourceFile, sizeOfFile, sourceError } from '../images/layout-source.ts';
import type { Plan } from '../images/plan-images.ts';

const CHUNK_BYTES = 1024 * 1024;
/** Buffers of 1 MiB for thousands of tiny layers would keep the garbage collector busy. */
const LEAST_CHUNK_BYTES = 16 * 1024;
/** The assumed growth of a layer when it is unpacked, for the size of a buffer only. */
const UNPACKED_FACTOR = 4;

interface PackedFile extends SourceFile {
  /** The files that it is cut into, in order. Default: `path` alone. */
  readonly pieces?: readonly string[];
}

async function* inTurn(pieces: readonly string[], open: (piece: string) => AsyncIterable<Buffer>) {
  for (const piece of pieces) yield* open(piece);
}

interface PackedSink {
  /** It decides the size of buffers. Default: a large one. */
  readonly sizeBytes?: number;
  readonly onHead?: (head: Buffer) => void;
  /** The bytes of the file; the next ones wait for the promise. */
  readonly onFile?: (chunk: Buffer) => Promise<void>;
  readonly onTar: (chunk: Buffer) => void | Promise<void>;
}

/**
 * Unpacks gzip, zstd and plain tar, by their first bytes: media types are often wrong.
 *
 * @throws AppError `bundle/source`, also for `bundle/tar` of the sink; other errors of the sink
 */
export async function streamPacked(file: PackedFile, sink: PackedSink, signal: AbortSignal): Promise<void> {
  const { sizeBytes, onHead, onFile, onTar } = sink;
  const { path, pieces = [path] } = file;
  const open = (piece: string) => createReadStream(piece, { highWaterMark: bufferBytes(sizeBytes), signal });
  for (const piece of pieces) await sizeOfFile({ path: piece, what: file.what });
  const stream = Readable.from(inTurn(pieces, open), { signal });
  const chunks = readFrom(stream, file, onFile);
  const chunkSize = bufferBytes(sizeBytes, UNPACKED_FACTOR);
  try {
    const first = await chunks.next();
    const head = first.done ? Buffer.alloc(0) : first.value;
    onHead?.(head);
    const all = (async function* () {
      yield head;
      yield* chunks;
    })();
    const take = async (parts: AsyncIterable<Buffer>) => {
      for await (const part of parts) {
        signal.throwIfAborted();
        await onTar(part);
      }
    };
    if (head[0] === 0x1f && head[1] === 0x8b) await pipeline(all, createGunzip({ chunkSize }), take, { signal });
    else await take(isZstd(head) ? unzstd(all, chunkSize) : all);
  } catch (error) {
    signal.throwIfAborted();
    throw packedError(file, error);
  } finally {
    stream.destroy();
  }
}

export function damagedFile({ what }: SourceFile, why: string, cause?: unknown): AppError {
  return bundleError('bundle/source', `${what} is damaged: ${why}`, { cause });
}

function bufferBytes(sizeBytes: number = CHUNK_BYTES, factor = 1): number {
  return Math.min(CHUNK_BYTES, Math.max(LEAST_CHUNK_BYTES, sizeBytes * factor));
}

async function* readFrom(
  stream: AsyncIterable<Buffer>,
  { what }: SourceFile,
  onFile: PackedSink['onFile'],
): AsyncGenerator<Buffer, undefined> {
  const chunks = stream[Symbol.asyncIterator]();
  for (;;) {
    const next = await chunks.next().catch((cause: unknown) => {
      throw sourceError(what, cause);
    });
    if (next.done) return undefined;
    await onFile?.(next.value);
    yield next.value;
  }
}

function packedError(file: SourceFile, error: unknown): unknown {
  if (error instanceof AppError) return error.code === 'bundle/tar' ? damagedFile(file, error.message, error) : error;
  const code = systemCodeOf(error);
  const packing = code?.startsWith('Z_') ? 'gzip' : code?.startsWith('ZSTD_') ? 'zstd' : undefined;
  if (packing === undefined && !(error instanceof RangeError)) return error;
  return damagedFile(file, `its ${packing ?? 'zstd'} can't be unpacked: ${reasonOf(error)}`, error);
}

/** Takes exact amounts of bytes from chunks that are cut anywhere. Keeps less than a chunk. */
class ByteInput {
  private unread: Buffer = Buffer.alloc(0);

  constructor(private readonly chunks: AsyncIterator<Buffer>) {}

  /** Takes at least 1 byte; undefined at the end. @throws RangeError when the input ends within */
  async take(count: number): Promise<Buffer | undefined> {
    const parts: Buffer[] = [];
    let missing = count;
    while (missing > 0) {
      if (this.unread.length === 0) {
        const next = await this.chunks.next();
        if (next.done) break;
        this.unread = next.value;
      }
      const part = this.unread.subarray(0, missing);
      parts.push(part);
      missing -= part.length;
      this.unread = this.unread.subarray(part.length);
    }
    if (missing === count) return undefined;
    if (missing > 0) throw new RangeError('unexpected end of file');
    return parts.length === 1 ? parts[0] : Buffer.concat(parts);
  }

  async whole(count: number): Promise<Buffer> {
    const bytes = await this.take(count);
    if (bytes === undefined) throw new RangeError('unexpected end of file');
    return bytes;
  }
}

/** RFC 8878, section 3.1.1: the magic number of a frame, in little endian. */
const FRAME = 0xfd2fb528;
/** RFC 8878, section 3.1.2: skippable frames, as pzstd writes them. */
const SKIPPABLE = 0x184d2a50;
/** RFC 8878, section 3.1.1.2.4: the most bytes of a block. */
const MAX_BLOCK_BYTES = 128 * 1024;
const SKIP_AT_ONCE = 64 * 1024;
/** The largest window, 2 GiB, which `zstd --long=31` makes. Memory is taken as it fills. */
const WINDOW_LOG = 31;
/** gzip reaches no more. Blocks of one repeated byte reach 30,000, and would block a processor. */
const MAX_RATIO = 1032;
/** A few bytes may unpack to this much. */
const FREE_BYTES = 1024 * 1024 * 1024;

interface Part {
  readonly bytes: Buffer;
  readonly isLast: boolean;
}

/**
 * Unpacks any number of zstd frames (RFC 8878), as zstd(1) does. A stream of node:zlib ends with
 * its first frame, so each frame gets a new one.
 * @throws RangeError when cut off, no zstd, or unpacked to far too much; errors of node:zlib
 */
export async function* unzstd(chunks: AsyncIterable<Buffer>, chunkSize: number): AsyncGenerator<Buffer> {
  let packedBytes = 0;
  let unpackedBytes = 0;
  const parts = partsOf(new ByteInput(chunks[Symbol.asyncIterator]()));
  for (let next = await parts.next(); !next.done; next = await parts.next()) {
    const first = next.value;
    const unpacked = createZstdDecompress({ chunkSize, params: { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG } });
    const frame = async function* () {
      for (let part: Part = first; ; ) {
        packedBytes += part.bytes.length;
        yield part.bytes;
        if (part.isLast) return;
        const following = await parts.next();
        if (following.done) return;
        part = following.value;
      }
    };
    const fed = pipeline(frame, unpacked);
    // An error would otherwise count as unhandled while the loop below waits.
    fed.catch(() => undefined);
    for await (const part of unpacked as AsyncIterable<Buffer>) {
      unpackedBytes += part.length;
      if (unpackedBytes > FREE_BYTES && unpackedBytes > packedBytes * MAX_RATIO) {
        throw new RangeError(`it unpacks to more than ${MAX_RATIO} times its size`);
      }
      yield part;
    }
    await fed;
  }
}

/** A frame to skip counts: pzstd begins with one. */
function isZstd(head: Buffer): boolean {
  if (head.length < 4) return false;
  const magic = head.readUInt32LE();
  return magic === FRAME || (magic & 0xfffffff0) >>> 0 === SKIPPABLE;
}

async function* partsOf(input: ByteInput): AsyncGenerator<Part, undefined> {
  for (let magic = await input.take(4); magic !== undefined; magic = await input.take(4)) {
    const number = magic.readUInt32LE();
    if (number === FRAME) yield* partsOfFrame(magic, input);
    else if ((number & 0xfffffff0) >>> 0 === SKIPPABLE) {
      let remaining = (await input.whole(4)).readUInt32LE();
      for (; remaining > 0; remaining -= SKIP_AT_ONCE) await input.whole(Math.min(remaining, SKIP_AT_ONCE));
    } else throw new RangeError('it has bytes that are no zstd frame');
  }
  return undefined;
}

/** RFC 8878, section 3.1.1: header, blocks, checksum. */
async function* partsOfFrame(magic: Buffer, input: ByteInput): AsyncGenerator<Part, undefined> {
  const descriptor = await input.whole(1);
  const flags = descriptor[0] ?? 0;
  const hasChecksum = (flags & 0x04) !== 0;
  // Section 3.1.1.1: window, dictionary and content size.
  const isSingleSegment = (flags & 0x20) !== 0;
  const contentBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][flags >>> 6] ?? 0;
  const headerBytes = (isSingleSegment ? 0 : 1) + ([0, 1, 2, 4][flags & 3] ?? 0) + contentBytes;
  const header = headerBytes === 0 ? [] : [await input.whole(headerBytes)];
  yield { bytes: Buffer.concat([magic, descriptor, ...header]), isLast: false };
  for (let isLast = false; !isLast; ) {
    const head = await input.whole(3);
    const bits = head.readUIntLE(0, 3);
    isLast = (bits & 1) === 1;
    const type = (bits >>> 1) & 3;
    const sizeBytes = type === 1 ? 1 : bits >>> 3;
    if (type === 3 || sizeBytes > MAX_BLOCK_BYTES) throw new RangeError('a zstd block is malformed');
    const block = sizeBytes === 0 ? [] : [await input.whole(sizeBytes)];
    yield { bytes: Buffer.concat([head, ...block]), isLast: isLast && !hasChecksum };
  }
  if (hasChecksum) yield { bytes: await input.whole(4), isLast: true };
  return undefined;
}

export interface FileSizeRules {
  readonly isTar: boolean;
  readonly allowLargeBlobs: boolean;
  readonly filesystem?: StickFilesystem;
}

/**
 * Every layer must fit into one file of a stick. `leftOut`: the base provides them.
 *
 * @throws AppError `bundle/source` with the layer, its image, and what to do
 */
export function checkBlobSizes(
  { layers, images }: Pick<Plan, 'layers' | 'images'>,
  rules: FileSizeRules,
  leftOut?: { has(digest: Digest): boolean },
): void {
  for (const [at, { digest, size }] of layers.entries()) {
    if (leftOut?.has(digest) || size <= limits.blobBytes) continue;
    const image = images.find((one) => one.layers.includes(at));
    const what = `${image?.reference ?? 'an image'}: layer ${digest}`;
    checkBlobSize(what, size, rules, ', or rebuild the image with smaller layers');
  }
}

/** `what` begins the message, `orElse` ends its advice. @throws AppError `bundle/source` */
export function checkBlobSize(what: string, sizeBytes: number, rules: FileSizeRules, orElse = ''): void {
  const has = `${what} has ${formatBytes(sizeBytes)}`;
  if (sizeBytes > limits.blobBytes && !rules.allowLargeBlobs) {
    const advice =
      rules.filesystem === undefined
        ? 'use sticks with exFAT or ext4, and give --allow-large-blobs'
        : 'give --filesystem ext4';
    throw bundleError('bundle/source', `${has}, but a file on FAT must be smaller than 4 GiB: ${advice}${orElse}`);
  }
  if (rules.isTar && sizeBytes > limits.tarMemberBytes) {
    const message = `${has}, but a file in a tar must be smaller than 8 GiB: make the bundle as a directory`;
    throw bundleError('bundle/source', message);
  }
}
