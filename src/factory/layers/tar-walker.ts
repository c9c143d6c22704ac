import {
  hasMoreSparseMap,
  notTar,
  paddedTarBytes,
  parsePaxRecords,
  parseTarHeader,
  TAR_BLOCK_BYTES,
  type TarHeader,
} from '../../bundle/format/tar-header.ts';

/**
 * Called for each member, with the name and sizes of its extended headers. Its data goes to the
 * returned function in chunks of any size, or is skipped. Of a sparse file only stored data is
 * passed.
 */
type TarVisitor = (member: TarHeader) => ((data: Uint8Array) => void) | undefined;

interface TarWalker {
  /** Bytes cut anywhere. @throws AppError `bundle/tar` (`reject`) when they are no tar archive */
  write(chunk: Uint8Array): void;
  /** @throws AppError `bundle/tar` (`reject`) when the archive is cut off */
  end(): void;
}

const MAX_EXTENDED_BYTES = 1024 * 1024;
/** Extended headers that are ignored: pax's global one, Solaris' own. */
const SKIPPED = new Set(['g', 'X']);
/** Extended headers of the next member: pax's, GNU's long name and long link name. */
const EXTENDED = new Set(['x', 'L', 'K']);

interface Walk {
  readonly visit: TarVisitor;
  /** Of a member's data, without and with padding. */
  dataLeft: number;
  paddedLeft: number;
  sink: ReturnType<TarVisitor>;
  /** The one that is being read. */
  extended: ExtendedHeader | undefined;
  /** Of the next member. */
  pax: ReadonlyMap<string, string> | undefined;
  longName: string | undefined;
  longLink: string | undefined;
  /** The member whose map is being read. */
  sparse: TarHeader | undefined;
  /** Everything after the end marker is ignored. */
  ended: boolean;
}

interface ExtendedHeader {
  readonly type: string;
  readonly body: Buffer[];
  left: number;
}

/** Reads ustar, pax and GNU archives, sparse files included. */
export function createTarWalker(visit: TarVisitor): TarWalker {
  const walk: Walk = {
    visit,
    dataLeft: 0,
    paddedLeft: 0,
    sink: undefined,
    extended: undefined,
    pax: undefined,
    longName: undefined,
    longLink: undefined,
    sparse: undefined,
    ended: false,
  };
  const block = Buffer.alloc(TAR_BLOCK_BYTES);
  let filled = 0;
  return {
    write: (chunk) => {
      for (let at = 0; at < chunk.length; ) {
        const taken = filled === 0 ? takeData(walk, chunk.subarray(at)) : 0;
        at += taken;
        if (taken > 0) continue;
        const part = chunk.subarray(at, at + TAR_BLOCK_BYTES - filled);
        block.set(part, filled);
        filled += part.length;
        at += part.length;
        if (filled < TAR_BLOCK_BYTES) break;
        filled = 0;
        takeBlock(walk, block);
      }
    },
    end: () => {
      if (!walk.ended && (filled > 0 || isInMember(walk))) throw notTar('it is cut off');
    },
  };
}

/** @returns how many bytes of the chunk belong to the current member */
function takeData(walk: Walk, chunk: Uint8Array): number {
  if (walk.ended) return chunk.length;
  const taken = Math.min(chunk.length, walk.paddedLeft);
  const content = Math.min(taken, walk.dataLeft);
  if (content > 0) walk.sink?.(chunk.subarray(0, content));
  walk.dataLeft -= content;
  walk.paddedLeft -= taken;
  return taken;
}

/** A block of a header or a sparse map. */
function takeBlock(walk: Walk, block: Buffer): void {
  if (walk.extended !== undefined) extend(walk, walk.extended, block);
  else if (walk.sparse === undefined) takeHeader(walk, block);
  else if (!hasMoreSparseMap(block)) {
    expectData(walk, walk.sparse, walk.sink);
    walk.sparse = undefined;
  }
}

function takeHeader(walk: Walk, block: Buffer): void {
  const found = parseTarHeader(block);
  if (found === undefined) walk.ended = true;
  else if (EXTENDED.has(found.type) && found.storedBytes > 0) walk.extended = startExtended(found);
  else if (SKIPPED.has(found.type) || EXTENDED.has(found.type)) expectData(walk, found, undefined);
  else takeMember(walk, found);
}

function takeMember(walk: Walk, header: TarHeader): void {
  const member = withPax(header, walk);
  walk.pax = undefined;
  walk.longName = undefined;
  walk.longLink = undefined;
  const sink = walk.visit(member);
  if (member.hasSparseMap) {
    walk.sparse = member;
    walk.sink = sink;
  } else expectData(walk, member, sink);
}

function expectData(walk: Walk, { storedBytes }: TarHeader, sink: ReturnType<TarVisitor>): void {
  walk.dataLeft = storedBytes;
  walk.paddedLeft = paddedTarBytes(storedBytes);
  walk.sink = sink;
}

function extend(walk: Walk, extended: ExtendedHeader, part: Buffer): void {
  extended.body.push(Buffer.from(part.subarray(0, extended.left)));
  extended.left = Math.max(0, extended.left - part.length);
  if (extended.left > 0) return;
  const body = Buffer.concat(extended.body);
  if (extended.type === 'x') walk.pax = parsePaxRecords(body);
  else walk[extended.type === 'L' ? 'longName' : 'longLink'] = body.toString('utf8').replace(/\0.*$/s, '');
  walk.extended = undefined;
}

/** Whether data, the rest of a header, or the member of an extended header is still to come. */
function isInMember({ paddedLeft, sparse, extended, pax, longName, longLink }: Walk): boolean {
  return paddedLeft > 0 || [sparse, extended, pax, longName, longLink].some((part) => part !== undefined);
}

function startExtended({ type, storedBytes }: TarHeader): ExtendedHeader {
  if (storedBytes > MAX_EXTENDED_BYTES) throw notTar(`an extended header is larger than ${MAX_EXTENDED_BYTES} bytes`);
  return { type, body: [], left: storedBytes };
}

/**
 * pax: `path`, `linkpath` and `size` replace the header's own; GNU's records have the size of a
 * sparse file.
 */
function withPax(header: TarHeader, { pax: records, longName, longLink }: Walk): TarHeader {
  const named = {
    ...header,
    name: records?.get('path') ?? longName ?? header.name,
    linkName: records?.get('linkpath') ?? longLink ?? header.linkName,
  };
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
  if (!/^[0-9]{1,15}$/.test(text)) throw notTar(`pax record ${key} is not a number`);
  return Number(text);
}

/** `diskBytes` counts each regular file rounded up to 4 KiB. */
interface TarTotals {
  readonly diskBytes: number;
  readonly inodes: number;
}

export interface TarMeter {
  /** Bytes cut anywhere. @throws AppError `bundle/tar` (`reject`) when they are no tar archive */
  write(chunk: Uint8Array): void;
  /** @throws AppError `bundle/tar` (`reject`) when the archive is cut off */
  end(): TarTotals;
}

const DISK_BLOCK_BYTES = 4096;

export function createTarMeter(): TarMeter {
  let inodes = 0;
  let diskBytes = 0;
  const walker = createTarWalker(({ type, unpackedBytes }) => {
    // A hard link is another name of a file that was counted before.
    if (type !== '1') inodes += 1;
    diskBytes += Math.ceil(unpackedBytes / DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES;
    return undefined;
  });
  return {
    write: walker.write,
    end: () => {
      walker.end();
      return { diskBytes, inodes };
    },
  };
}
