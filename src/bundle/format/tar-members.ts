import type { FileHandle } from 'node:fs/promises';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';
import { notTar, paddedTarBytes, parsePaxRecords, parseTarHeader, TAR_BLOCK_BYTES } from './tar-header.ts';

/** A regular file in an archive. `sizeBytes` are at `offset`, less when the archive is cut off. */
export interface TarMember {
  /** Without `./` at its beginning. */
  readonly name: string;
  readonly offset: number;
  readonly sizeBytes: number;
}

/** Largest extended headers before a member; our own archives have none. */
const MAX_PAX_BYTES = 64 * 1024;

/**
 * The regular files of an archive in its order, found by their headers alone; their data is
 * skipped. Ends at the end marker or where the archive is truncated.
 *
 * @throws AppError `bundle/tar` (`reject`) for a damaged header or too many members; system errors
 *   of reading as they are.
 */
export async function* readTarMembers(
  file: FileHandle,
  archiveBytes: number,
  signal: AbortSignal,
): AsyncGenerator<TarMember, void, undefined> {
  let pax = new Map<string, string>();
  let count = 0;
  for (let at = 0; at < archiveBytes; ) {
    signal.throwIfAborted();
    const block = await readAt(file, at, TAR_BLOCK_BYTES);
    const header = block === undefined ? undefined : parseTarHeader(block);
    if (header === undefined) return;
    count += 1;
    if (count > limits.tarMembers) throw bundleError('bundle/tar', `more than ${limits.tarMembers} members`);
    const storedBytes = header.type === 'x' ? header.storedBytes : sizeIn(pax, header.storedBytes);
    const offset = at + TAR_BLOCK_BYTES;
    at = offset + paddedTarBytes(storedBytes);
    if (header.type === 'x') {
      pax = await readPax(file, offset, storedBytes);
      continue;
    }
    if (header.type === '0' || header.type === '7') {
      const name = (pax.get('path') ?? header.name).replace(/^(?:\.\/)+/, '');
      yield { name, offset, sizeBytes: Math.max(0, Math.min(storedBytes, archiveBytes - offset)) };
    }
    if (header.type !== 'g') pax = new Map();
  }
}

async function readPax(file: FileHandle, offset: number, sizeBytes: number): Promise<Map<string, string>> {
  if (sizeBytes > MAX_PAX_BYTES) throw notTar(`a pax header is larger than ${MAX_PAX_BYTES} bytes`);
  const body = await readAt(file, offset, sizeBytes);
  return body === undefined ? new Map() : parsePaxRecords(body);
}

function sizeIn(pax: ReadonlyMap<string, string>, otherwise: number): number {
  const text = pax.get('size');
  if (text === undefined) return otherwise;
  if (!/^[0-9]{1,15}$/.test(text)) throw notTar('pax record size is not a number');
  return Number(text);
}

/** Exactly these bytes, or undefined where the archive is cut off. */
async function readAt(file: FileHandle, position: number, sizeBytes: number): Promise<Buffer | undefined> {
  const buffer = Buffer.alloc(sizeBytes);
  let filled = 0;
  while (filled < sizeBytes) {
    const { bytesRead } = await file.read(buffer, filled, sizeBytes - filled, position + filled);
    if (bytesRead === 0) return undefined;
    filled += bytesRead;
  }
  return buffer;
}
