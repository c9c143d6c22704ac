import { pipeline } from 'node:stream/promises';
import { constants, createZstdDecompress } from 'node:zlib';
import { type ByteInput, createByteInput } from './byte-input.ts';

/** RFC 8878, section 3.1.1: the magic number of a frame, in little endian. */
const FRAME = 0xfd2fb528;
/** RFC 8878, section 3.1.2: skippable frames, as pzstd writes them. */
const SKIPPABLE = 0x184d2a50;
/** RFC 8878, section 3.1.1.2.4: the most bytes of a block. */
const MAX_BLOCK_BYTES = 128 * 1024;
const SKIP_AT_ONCE = 64 * 1024;
/** The largest window, 2 GiB, which `zstd --long=31` makes. Memory is taken as it fills. */
const WINDOW_LOG = 31;
/**
 * As much as gzip can reach. Blocks of one repeated byte reach 30,000, and would keep a processor
 * busy for hours.
 */
const MAX_RATIO = 1032;
/** What may be unpacked of few bytes. */
const FREE_BYTES = 1024 * 1024 * 1024;

/** A part of a frame. */
interface Part {
  readonly bytes: Buffer;
  readonly isLast: boolean;
}

/**
 * Unpacks zstd data (RFC 8878) of any number of frames, as zstd(1) does. A stream of node:zlib ends
 * with its first frame, and ignores what is behind it. So the frames are told apart here, and each
 * gets a stream of its own.
 *
 * @param chunkSize most bytes of a part that is passed on.
 * @throws RangeError when the data is cut off, is not zstd, or unpacks to far too much; errors of
 *   node:zlib.
 */
export async function* unzstd(chunks: AsyncIterable<Buffer>, chunkSize: number): AsyncGenerator<Buffer> {
  let packedBytes = 0;
  let unpackedBytes = 0;
  const parts = partsOf(createByteInput(chunks[Symbol.asyncIterator]()));
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
    // Without this an error would count as unhandled while the loop below waits.
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

/** Whether a file begins with a frame, or with a frame to skip, which pzstd begins with. */
export function isZstd(head: Buffer): boolean {
  if (head.length < 4) return false;
  const magic = head.readUInt32LE();
  return magic === FRAME || (magic & 0xfffffff0) >>> 0 === SKIPPABLE;
}

async function* partsOf(input: ByteInput): AsyncGenerator<Part, undefined> {
  for (let magic = await input.take(4); magic !== undefined; magic = await input.take(4)) {
    const number = magic.readUInt32LE();
    if (number === FRAME) yield* partsOfFrame(magic, input);
    else if ((number & 0xfffffff0) >>> 0 === SKIPPABLE) await skip((await whole(input, 4)).readUInt32LE(), input);
    else throw new RangeError('it has bytes that are no zstd frame');
  }
  return undefined;
}

/** RFC 8878, section 3.1.1: header, blocks, checksum. */
async function* partsOfFrame(magic: Buffer, input: ByteInput): AsyncGenerator<Part, undefined> {
  const descriptor = await whole(input, 1);
  const flags = descriptor[0] ?? 0;
  const hasChecksum = (flags & 0x04) !== 0;
  const headerBytes = headerBytesOf(flags);
  const header = headerBytes === 0 ? [] : [await whole(input, headerBytes)];
  yield { bytes: Buffer.concat([magic, descriptor, ...header]), isLast: false };
  for (let isLast = false; !isLast; ) {
    const head = await whole(input, 3);
    const bits = head.readUIntLE(0, 3);
    isLast = (bits & 1) === 1;
    const type = (bits >>> 1) & 3;
    const sizeBytes = type === 1 ? 1 : bits >>> 3;
    if (type === 3 || sizeBytes > MAX_BLOCK_BYTES) throw new RangeError('a zstd block is malformed');
    const block = sizeBytes === 0 ? [] : [await whole(input, sizeBytes)];
    yield { bytes: Buffer.concat([head, ...block]), isLast: isLast && !hasChecksum };
  }
  if (hasChecksum) yield { bytes: await whole(input, 4), isLast: true };
  return undefined;
}

/** RFC 8878, section 3.1.1.1: window, dictionary and content size, behind the descriptor. */
function headerBytesOf(flags: number): number {
  const isSingleSegment = (flags & 0x20) !== 0;
  const sizeBytes = [isSingleSegment ? 1 : 0, 2, 4, 8][flags >>> 6] ?? 0;
  const dictionaryBytes = [0, 1, 2, 4][flags & 3] ?? 0;
  return (isSingleSegment ? 0 : 1) + dictionaryBytes + sizeBytes;
}

async function skip(sizeBytes: number, input: ByteInput): Promise<void> {
  for (let left = sizeBytes; left > 0; left -= SKIP_AT_ONCE) await whole(input, Math.min(left, SKIP_AT_ONCE));
}

async function whole(input: ByteInput, count: number): Promise<Buffer> {
  const bytes = await input.take(count);
  if (bytes === undefined) throw new RangeError('unexpected end of file');
  return bytes;
}
