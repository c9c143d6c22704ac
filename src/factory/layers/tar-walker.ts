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
 * Called for each member. Its data goes to the returned function in chunks of any size, or is
 * skipped. A sparse file passes only stored data.
 */
type TarVisitor = (member: TarHeader) => ((data: Uint8Array) => void) | undefined;

const MAX_EXTENDED_BYTES = 1024 * 1024;
/** Extended headers that are ignored: pax's global one, and that of Solaris. */
const SKIPPED = new Set(['g', 'X']);
/** Extended headers of the next member: pax's, GNU's long name and long link name. */
const EXTENDED = new Set(['x', 'L', 'K']);

/** Reads ustar, pax and GNU archives, sparse files included. */
export class TarWalker {
  private readonly block = Buffer.alloc(TAR_BLOCK_BYTES);
  private filled = 0;
  /** The remaining data of a member, without and with padding. */
  private dataLeft = 0;
  private paddedLeft = 0;
  private sink: ReturnType<TarVisitor>;
  private extended: { readonly type: string; readonly body: Buffer[]; remaining: number } | undefined;
  /** The records of the next member. */
  private pax: ReadonlyMap<string, string> | undefined;
  private longName: string | undefined;
  private longLink: string | undefined;
  /** The member whose map is being read. */
  private sparse: TarHeader | undefined;
  /** Everything after the end marker is ignored. */
  private hasEnded = false;

  constructor(private readonly visit: TarVisitor) {}

  /** Bytes cut anywhere. @throws AppError `bundle/tar` (`reject`) when they are no tar archive */
  write(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      const taken = this.filled === 0 ? this.takeData(chunk.subarray(at)) : 0;
      at += taken;
      if (taken > 0) continue;
      const part = chunk.subarray(at, at + TAR_BLOCK_BYTES - this.filled);
      this.block.set(part, this.filled);
      this.filled += part.length;
      at += part.length;
      if (this.filled < TAR_BLOCK_BYTES) break;
      this.filled = 0;
      this.takeBlock();
    }
  }

  /** @throws AppError `bundle/tar` (`reject`) when the archive is cut off */
  end(): void {
    const parts = [this.sparse, this.extended, this.pax, this.longName, this.longLink];
    const isInMember = this.filled > 0 || this.paddedLeft > 0 || parts.some((part) => part !== undefined);
    if (!this.hasEnded && isInMember) throw notTar('it is cut off');
  }

  /** @returns how many bytes of the chunk belong to the current member */
  private takeData(chunk: Uint8Array): number {
    if (this.hasEnded) return chunk.length;
    const taken = Math.min(chunk.length, this.paddedLeft);
    const content = Math.min(taken, this.dataLeft);
    if (content > 0) this.sink?.(chunk.subarray(0, content));
    this.dataLeft -= content;
    this.paddedLeft -= taken;
    return taken;
  }

  private takeBlock(): void {
    if (this.extended !== undefined) this.extend(this.extended);
    else if (this.sparse === undefined) this.takeHeader();
    else if (!hasMoreSparseMap(this.block)) {
      this.expectData(this.sparse, this.sink);
      this.sparse = undefined;
    }
  }

  private takeHeader(): void {
    const found = parseTarHeader(this.block);
    if (found === undefined) this.hasEnded = true;
    else if (EXTENDED.has(found.type) && found.storedBytes > 0) {
      if (found.storedBytes > MAX_EXTENDED_BYTES)
        throw notTar(`an extended header is larger than ${MAX_EXTENDED_BYTES} bytes`);
      this.extended = { type: found.type, body: [], remaining: found.storedBytes };
    } else if (SKIPPED.has(found.type) || EXTENDED.has(found.type)) this.expectData(found, undefined);
    else this.takeMember(this.withPax(found));
  }

  private takeMember(member: TarHeader): void {
    this.pax = undefined;
    this.longName = undefined;
    this.longLink = undefined;
    const sink = this.visit(member);
    if (member.hasSparseMap) {
      this.sparse = member;
      this.sink = sink;
    } else this.expectData(member, sink);
  }

  private expectData({ storedBytes }: TarHeader, sink: ReturnType<TarVisitor>): void {
    this.dataLeft = storedBytes;
    this.paddedLeft = paddedTarBytes(storedBytes);
    this.sink = sink;
  }

  private extend(extended: { readonly type: string; readonly body: Buffer[]; remaining: number }): void {
    extended.body.push(Buffer.from(this.block.subarray(0, extended.remaining)));
    extended.remaining = Math.max(0, extended.remaining - TAR_BLOCK_BYTES);
    if (extended.remaining > 0) return;
    const body = Buffer.concat(extended.body);
    const text = body.toString('utf8').replace(/\0.*$/s, '');
    if (extended.type === 'x') this.pax = parsePaxRecords(body);
    else if (extended.type === 'L') this.longName = text;
    else this.longLink = text;
    this.extended = undefined;
  }

  /** pax replaces what the header says; GNU's records have the size of a sparse file. */
  private withPax(header: TarHeader): TarHeader {
    const records = this.pax;
    const named = {
      ...header,
      name: records?.get('path') ?? this.longName ?? header.name,
      linkName: records?.get('linkpath') ?? this.longLink ?? header.linkName,
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
}

function paxNumber(records: ReadonlyMap<string, string>, key: string): number | undefined {
  const text = records.get(key);
  if (text === undefined) return undefined;
  if (!/^[0-9]{1,15}$/.test(text)) throw notTar(`pax record ${key} is not a number`);
  return Number(text);
}

const DISK_BLOCK_BYTES = 4096;

/** Measures a tar. `diskBytes` counts each regular file rounded up to 4 KiB. */
export class TarMeter extends TarWalker {
  inodes = 0;
  diskBytes = 0;

  constructor() {
    super(({ type, unpackedBytes }) => {
      // A hard link is another name of a file that was counted before.
      if (type !== '1') this.inodes += 1;
      this.diskBytes += Math.ceil(unpackedBytes / DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES;
      return undefined;
    });
  }
}
