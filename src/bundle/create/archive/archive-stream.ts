import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { AppError, reasonOf, systemCodeOf } from '../../../platform/app-error.ts';
import { bundleError } from '../../bundle-error.ts';
import { sourceError } from '../images/layout-source.ts';
import { unzstd } from './unzstd.ts';

const CHUNK_BYTES = 1024 * 1024;

/** Who is told of bytes of the file, and who gets those of the tar inside. */
interface ArchiveSink {
  readonly onFileBytes: (bytes: number) => void;
  /** The next bytes come when the promise is fulfilled. */
  readonly onTar: (chunk: Buffer) => Promise<void>;
}

/**
 * Reads an archive once, from its beginning to its end, and unpacks it: gzip, zstd and plain tar,
 * told apart by their first bytes. At most some MiB are in memory, whatever they unpack to.
 *
 * @throws AppError `bundle/source` (`reject`) when it can't be read or unpacked; errors of the
 *   sink.
 */
export async function streamArchive(path: string, sink: ArchiveSink, signal: AbortSignal): Promise<void> {
  const stream = createReadStream(path, { highWaterMark: CHUNK_BYTES, signal });
  const chunks = readFrom(stream, path, sink.onFileBytes);
  try {
    const first = await chunks.next();
    const head = first.done ? Buffer.alloc(0) : first.value;
    const all = (async function* () {
      if (!first.done) yield first.value;
      yield* chunks;
    })();
    refuseOthers(path, head);
    if (head[0] === 0x1f && head[1] === 0x8b) await gunzip(all, sink, signal);
    else for await (const part of isZstd(head) ? unzstd(all, CHUNK_BYTES) : all) await sink.onTar(part);
  } catch (error) {
    signal.throwIfAborted();
    throw archiveError(path, error);
  } finally {
    stream.destroy();
  }
}

/** `bundle/source` (`reject`) for an archive that is damaged, or none. */
export function badArchive(path: string, why: string, cause?: unknown): AppError {
  return bundleError('bundle/source', `archive ${path}: ${why}`, { cause });
}

/** Packers that Node.js has no reader for, and what unpacks their files. */
const OTHER_PACKERS = [
  { magic: Buffer.from('fd377a585a00', 'hex'), name: 'xz', unpacker: 'unxz' },
  { magic: Buffer.from('BZh'), name: 'bzip2', unpacker: 'bunzip2' },
  { magic: Buffer.from('04224d18', 'hex'), name: 'lz4', unpacker: 'unlz4' },
] as const;

function refuseOthers(path: string, head: Buffer): void {
  const packer = OTHER_PACKERS.find(({ magic }) => head.subarray(0, magic.length).equals(magic));
  if (packer === undefined) return;
  throw badArchive(path, `it is packed with ${packer.name}: unpack it with ${packer.unpacker}, and give the .tar`);
}

/** A frame, or a frame to skip, which pzstd begins with. */
function isZstd(head: Buffer): boolean {
  if (head.length < 4) return false;
  const magic = head.readUInt32LE();
  return magic === 0xfd2fb528 || (magic & 0xfffffff0) >>> 0 === 0x184d2a50;
}

async function gunzip(chunks: AsyncIterable<Buffer>, { onTar }: ArchiveSink, signal: AbortSignal): Promise<void> {
  const take = async (parts: AsyncIterable<Buffer>) => {
    for await (const part of parts) await onTar(part);
  };
  await pipeline(chunks, createGunzip({ chunkSize: CHUNK_BYTES }), take, { signal });
}

async function* readFrom(
  stream: AsyncIterable<Buffer>,
  path: string,
  onBytes: (bytes: number) => void,
): AsyncGenerator<Buffer, undefined> {
  try {
    for await (const chunk of stream) {
      onBytes(chunk.length);
      yield chunk;
    }
  } catch (error) {
    throw sourceError(path, error);
  }
  return undefined;
}

function archiveError(path: string, error: unknown): unknown {
  if (error instanceof AppError) return error.code === 'bundle/tar' ? badArchive(path, error.message, error) : error;
  const code = systemCodeOf(error);
  if (code === 'ZSTD_error_frameParameter_windowTooLarge') {
    return badArchive(path, 'its zstd has a window of more than 128 MiB: pack it again without --long=31', error);
  }
  return error instanceof RangeError || code?.startsWith('Z_') || code?.startsWith('ZSTD_')
    ? badArchive(path, `it can't be unpacked, so it is damaged or cut off: ${reasonOf(error)}`, error)
    : error;
}
