import {
  hasMoreSparseMap,
  notTar,
  paddedTarBytes,
  parsePaxRecords,
  parseTarHeader,
  TAR_BLOCK_BYTES,
  type TarHeader,
} from '../tar-header.ts';

/** What a layer takes once it is unpacked. `diskBytes` counts regular files rounded up to 4 KiB each. */
interface TarTotals {
  readonly diskBytes: number;
  readonly inodes: number;
}

/** Counts what a tar archive holds while its bytes pass by. */
export interface TarMeter {
  /** The next bytes, cut anywhere. @throws AppError `bundle/tar` (`reject`) when they are no tar archive */
  write(chunk: Uint8Array): void;
  /** The sums, once all bytes were written. @throws AppError `bundle/tar` (`reject`) when the archive is cut off */
  end(): TarTotals;
}

const DISK_BLOCK_BYTES = 4096;
const MAX_PAX_BYTES = 1024 * 1024;
/** Extended headers: they describe the next member and are none themselves. */
const EXTENDED = new Set(['x', 'g', 'L', 'K', 'X']);

/** A {@link TarMeter}: ustar, pax and GNU archives, sparse files included. */
export function createTarMeter(): TarMeter {
  const machine = createMachine();
  const block = Buffer.alloc(TAR_BLOCK_BYTES);
  let filled = 0;
  return {
    write: (chunk) => {
      for (let at = 0; at < chunk.length; ) {
        const skipped = filled === 0 ? machine.skip(chunk.length - at) : 0;
        at += skipped;
        if (skipped > 0) continue;
        const part = chunk.subarray(at, at + TAR_BLOCK_BYTES - filled);
        block.set(part, filled);
        filled += part.length;
        at += part.length;
        if (filled < TAR_BLOCK_BYTES) break;
        filled = 0;
        machine.block(block);
      }
    },
    end: () => {
      if (filled > 0 && !machine.hasEnded()) throw notTar('it is cut off');
      return machine.end();
    },
  };
}

function createMachine() {
  let inodes = 0;
  let diskBytes = 0;
  /** Bytes of data and padding that need no look. */
  let toSkip = 0;
  let pax: { records: Map<string, string>; body: Buffer[]; left: number } | undefined;
  let sparse: TarHeader | undefined;
  let ended = false;

  const data = (header: TarHeader) => {
    toSkip = paddedTarBytes(header.storedBytes);
  };
  const member = (header: TarHeader) => {
    const records = pax?.records;
    pax = undefined;
    const sized = withPax(header, records);
    // A hard link is one more name of a file that is counted already.
    if (header.type !== '1') inodes += 1;
    diskBytes += Math.ceil(sized.unpackedBytes / DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES;
    if (sized.hasSparseMap) sparse = sized;
    else data(sized);
  };
  const header = (block: Buffer) => {
    const found = parseTarHeader(block);
    if (found === undefined) ended = true;
    else if (found.type === 'x' && found.storedBytes > 0) pax = startPax(found.storedBytes);
    else if (EXTENDED.has(found.type)) data(found);
    else member(found);
  };
  return {
    skip: (available: number) => {
      const skipped = ended ? available : Math.min(available, toSkip);
      if (!ended) toSkip -= skipped;
      return skipped;
    },
    block: (block: Buffer) => {
      if (pax !== undefined && pax.left > 0) {
        pax.body.push(Buffer.from(block.subarray(0, pax.left)));
        pax.left = Math.max(0, pax.left - block.length);
        if (pax.left === 0) pax.records = parsePaxRecords(Buffer.concat(pax.body));
      } else if (sparse !== undefined) {
        if (hasMoreSparseMap(block)) return;
        data(sparse);
        sparse = undefined;
      } else header(block);
    },
    hasEnded: () => ended,
    end: (): TarTotals => {
      if (!ended && (toSkip > 0 || sparse !== undefined || pax !== undefined)) throw notTar('it is cut off');
      return { diskBytes, inodes };
    },
  };
}

function startPax(sizeBytes: number) {
  if (sizeBytes > MAX_PAX_BYTES) throw notTar(`a pax header is larger than ${MAX_PAX_BYTES} bytes`);
  return { records: new Map<string, string>(), body: [], left: sizeBytes };
}

/** pax: `size` replaces the header's own, GNU's records tell the size of a sparse file. */
function withPax(header: TarHeader, records: Map<string, string> | undefined): TarHeader {
  if (records === undefined || header.type === '1' || header.type === '5') return header;
  const storedBytes = paxNumber(records, 'size') ?? header.storedBytes;
  const real = paxNumber(records, 'GNU.sparse.realsize') ?? paxNumber(records, 'GNU.sparse.size');
  return {
    ...header,
    storedBytes,
    unpackedBytes: Math.max(real ?? 0, header.type === 'S' ? header.unpackedBytes : storedBytes),
  };
}

function paxNumber(records: Map<string, string>, key: string): number | undefined {
  const text = records.get(key);
  if (text === undefined) return undefined;
  if (!/^[0-9]{1,15}$/.test(text)) throw notTar(`pax record ${key} is no number`);
  return Number(text);
}
