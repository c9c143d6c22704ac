import type { FileHandle } from 'node:fs/promises';
import { bundleError } from '../bundle-error.ts';
import { limits } from '../limits.ts';

/** POSIX pax, "ustar Interchange Format". */
export const TAR_BLOCK_BYTES = 512;

/** `storedBytes`: size of the data, without padding. */
export interface TarHeader {
  /** A leading `./` and a trailing `/` are kept. */
  readonly name: string;
  /** The typeflag, with NUL as `0`. */
  readonly type: string;
  /** The target of a hard link (`1`) or symbolic link (`2`); else empty. */
  readonly linkName: string;
  readonly storedBytes: number;
  /** More than `storedBytes` for an old GNU sparse file. */
  readonly unpackedBytes: number;
  /** Blocks of GNU's sparse map follow before the data. */
  readonly hasSparseMap: boolean;
}

/** Types without data, whatever their size field says (as in Go's archive/tar and libarchive). */
const HEADER_ONLY = new Set(['1', '2', '3', '4', '5', '6']);

/** Returns undefined for a block of zeros, which ends the archive. @throws AppError `bundle/tar` */
export function parseTarHeader(block: Uint8Array): TarHeader | undefined {
  if (block.every((byte) => byte === 0)) return undefined;
  if (isCompressed(block)) throw notTar('it is compressed, but a bundle is read in place; pack it again with tar -cf');
  if (!hasGoodChecksum(block)) throw notTar('a header has a wrong checksum');
  const type = block[156] === 0 ? '0' : String.fromCharCode(block[156] ?? 0);
  const storedBytes = HEADER_ONLY.has(type) ? 0 : readNumber(block.subarray(124, 136));
  const isSparse = type === 'S';
  return {
    name: readName(block),
    type,
    linkName: type === '1' || type === '2' ? readText(block.subarray(157, 257)) : '',
    storedBytes,
    unpackedBytes: isSparse ? readNumber(block.subarray(483, 495)) : storedBytes,
    hasSparseMap: isSparse && block[482] !== 0,
  };
}

export function hasMoreSparseMap(block: Uint8Array): boolean {
  return block[504] !== 0;
}

/** `LENGTH KEY=VALUE\n` each. @throws AppError `bundle/tar` (`reject`) */
export function parsePaxRecords(body: Buffer): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < body.length; ) {
    const space = body.indexOf(0x20, at);
    const length = space < 0 ? Number.NaN : Number(body.toString('latin1', at, space));
    const record =
      Number.isSafeInteger(length) && length > space - at ? body.toString('utf8', space + 1, at + length) : '';
    const equals = record.indexOf('=');
    if (equals < 1 || at + length > body.length || !record.endsWith('\n')) throw notTar('a pax header is malformed');
    records.set(record.slice(0, equals), record.slice(equals + 1, -1));
    at += length;
  }
  return records;
}

export function paddedTarBytes(sizeBytes: number): number {
  return Math.ceil(sizeBytes / TAR_BLOCK_BYTES) * TAR_BLOCK_BYTES;
}

export function notTar(why: string) {
  return bundleError('bundle/tar', `not a tar archive: ${why}`);
}

/** POSIX splits a long name into two fields; GNU uses the first field otherwise. */
function readName(block: Uint8Array): string {
  const name = readText(block.subarray(0, 100));
  const prefix = readText(block.subarray(257, 263)) === 'ustar' ? readText(block.subarray(345, 500)) : '';
  return prefix === '' ? name : `${prefix}/${name}`;
}

function readText(field: Uint8Array): string {
  const end = field.indexOf(0);
  return Buffer.from(end < 0 ? field : field.subarray(0, end)).toString('utf8');
}

function hasGoodChecksum(block: Uint8Array): boolean {
  let unsigned = 0;
  let signed = 0;
  block.forEach((byte, at) => {
    const counted = at >= 148 && at < 156 ? 0x20 : byte;
    unsigned += counted;
    signed += counted > 127 ? counted - 256 : counted;
  });
  const checksum = readNumber(block.subarray(148, 156));
  // Old tars summed signed bytes.
  return checksum === unsigned || checksum === signed;
}

function isCompressed(block: Uint8Array): boolean {
  const start = Buffer.from(block.subarray(0, 4)).toString('hex');
  return ['1f8b', '28b52ffd', 'fd377a58'].some((magic) => start.startsWith(magic));
}

/** An octal number, or GNU's base-256 when the first bit is set. */
function readNumber(field: Uint8Array): number {
  const first = field[0] ?? 0;
  if (first & 0x80) {
    const value = field.reduce((sum, byte, at) => sum * 256 + (at === 0 ? byte & 0x7f : byte), 0);
    if (first & 0x40 || !Number.isSafeInteger(value)) throw notTar('a number is out of range');
    return value;
  }
  const text = String.fromCharCode(...field)
    .replace(/[\0 ]+$/, '')
    .trimStart();
  if (!/^[0-7]*$/.test(text)) throw notTar('a number is not octal');
  return text === '' ? 0 : Number.parseInt(text, 8);
}

/** `sizeBytes` are at `offset`, less when the archive is cut off. */
export interface TarMember {
  /** A leading `./` is removed. */
  readonly name: string;
  readonly offset: number;
  readonly sizeBytes: number;
}

/** Archives of stickpin have no extended headers. */
const MAX_PAX_BYTES = 64 * 1024;

/**
 * Skips data. Ends at the end marker or where the archive is cut off.
 *
 * @throws AppError `bundle/tar` for a damaged header or too many members; system errors as they are
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

/** Returns undefined where the archive is cut off. */
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
