import {
  hasMoreSparseMap,
  notTar,
  paddedTarBytes,
  parsePaxRecords,
  parseTarHeader,
  TAR_BLOCK_BYTES,
  type TarHeader,
} from '../../format/tar-header.ts';

/**
 * Is told each member of an archive, with the name and sizes that extended headers give it. Its data goes to the function that is returned, cut
 * anywhere; without one it is skipped. A sparse file's data is only what is stored.
 */
export type TarVisitor = (member: TarHeader) => ((data: Uint8Array) => void) | undefined;

/** Walks through a tar archive while its bytes pass by. */
export interface TarWalker {
  /** The next bytes, cut anywhere. @throws AppError `bundle/tar` (`reject`) when they are no tar archive */
  write(chunk: Uint8Array): void;
  /** Once all bytes were written. @throws AppError `bundle/tar` (`reject`) when the archive is cut off */
  end(): void;
}

const MAX_EXTENDED_BYTES = 1024 * 1024;
/** Extended headers that are of no use here: pax's global one, GNU's long link name, Solaris' own. */
const SKIPPED = new Set(['g', 'K', 'X']);

/** A {@link TarWalker}: ustar, pax and GNU archives, sparse files included. */
export function createTarWalker(visit: TarVisitor): TarWalker {
  const machine = createMachine(visit);
  const block = Buffer.alloc(TAR_BLOCK_BYTES);
  let filled = 0;
  return {
    write: (chunk) => {
      for (let at = 0; at < chunk.length; ) {
        const taken = filled === 0 ? machine.takeData(chunk.subarray(at)) : 0;
        at += taken;
        if (taken > 0) continue;
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
      machine.end();
    },
  };
}

function createMachine(visit: TarVisitor) {
  /** Bytes of data, and of data with padding, that are still to come. */
  let dataLeft = 0;
  let paddedLeft = 0;
  let sink: ReturnType<TarVisitor>;
  let extended: { readonly type: string; readonly body: Buffer[]; left: number } | undefined;
  let pax: Map<string, string> | undefined;
  let longName: string | undefined;
  let sparse: TarHeader | undefined;
  let ended = false;

  const data = (header: TarHeader, to?: ReturnType<TarVisitor>) => {
    dataLeft = header.storedBytes;
    paddedLeft = paddedTarBytes(header.storedBytes);
    sink = to;
  };
  const member = (header: TarHeader) => {
    const sized = withPax(header, pax, longName);
    pax = undefined;
    longName = undefined;
    const to = visit(sized);
    if (!sized.hasSparseMap) return data(sized, to);
    sparse = sized;
    sink = to;
  };
  const header = (block: Buffer) => {
    const found = parseTarHeader(block);
    if (found === undefined) ended = true;
    else if ((found.type === 'x' || found.type === 'L') && found.storedBytes > 0) extended = startExtended(found);
    else if (SKIPPED.has(found.type) || found.type === 'x' || found.type === 'L') data(found);
    else member(found);
  };
  const extend = (part: Buffer, into: NonNullable<typeof extended>) => {
    into.body.push(Buffer.from(part.subarray(0, into.left)));
    into.left = Math.max(0, into.left - part.length);
    if (into.left > 0) return;
    const body = Buffer.concat(into.body);
    if (into.type === 'x') pax = parsePaxRecords(body);
    else longName = body.toString('utf8').replace(/\0.*$/s, '');
    extended = undefined;
  };
  return {
    takeData: (chunk: Uint8Array): number => {
      const taken = ended ? chunk.length : Math.min(chunk.length, paddedLeft);
      if (ended) return taken;
      const content = Math.min(taken, dataLeft);
      if (content > 0) sink?.(chunk.subarray(0, content));
      dataLeft -= content;
      paddedLeft -= taken;
      return taken;
    },
    block: (block: Buffer) => {
      if (extended !== undefined) extend(block, extended);
      else if (sparse !== undefined) {
        if (hasMoreSparseMap(block)) return;
        data(sparse, sink);
        sparse = undefined;
      } else header(block);
    },
    hasEnded: () => ended,
    end: () => {
      const isOpen = paddedLeft > 0 || [sparse, extended, pax, longName].some((part) => part !== undefined);
      if (!ended && isOpen) throw notTar('it is cut off');
    },
  };
}

function startExtended({ type, storedBytes }: TarHeader) {
  if (storedBytes > MAX_EXTENDED_BYTES) throw notTar(`an extended header is larger than ${MAX_EXTENDED_BYTES} bytes`);
  return { type, body: [], left: storedBytes };
}

/** pax: `path` and `size` replace the header's own, GNU's records tell the size of a sparse file. */
function withPax(
  header: TarHeader,
  records: ReadonlyMap<string, string> | undefined,
  longName: string | undefined,
): TarHeader {
  const named = { ...header, name: records?.get('path') ?? longName ?? header.name };
  if (records === undefined || header.type === '1' || header.type === '5') return named;
  const storedBytes = paxNumber(records, 'size') ?? header.storedBytes;
  const real = paxNumber(records, 'GNU.sparse.realsize') ?? paxNumber(records, 'GNU.sparse.size');
  return {
    ...named,
    storedBytes,
    unpackedBytes: Math.max(real ?? 0, header.type === 'S' ? header.unpackedBytes : storedBytes),
  };
}

function paxNumber(records: ReadonlyMap<string, string>, key: string): number | undefined {
  const text = records.get(key);
  if (text === undefined) return undefined;
  if (!/^[0-9]{1,15}$/.test(text)) throw notTar(`pax record ${key} is no number`);
  return Number(text);
}
