import { closeSync, openSync, readSync } from 'node:fs';
import type { Socket } from 'node:net';
import { endianness } from 'node:os';
import { setImmediate as immediate } from 'node:timers/promises';

/** State ESTABLISHED in proc(5), "/proc/net/tcp". */
const ESTABLISHED = '01';

/** One end of a TCP connection as text: address and port. */
export interface TcpEndpoint {
  readonly address: string;
  readonly port: number;
}

type ByteOrder = ReturnType<typeof endianness>;

/**
 * The uid that owns the other end of a loopback connection, from the text of `/proc/net/tcp` or `tcp6`, or undefined when no row tells. The
 * row wanted is the peer's own: its local end is our remote end. Rows without an inode (TIME_WAIT and half-closed sockets, shown with uid 0)
 * do not count.
 *
 * @param byteOrder that of the machine which wrote the table, by default this one (s390x is big-endian)
 */
export function uidInTable(
  table: string,
  peer: TcpEndpoint,
  own: TcpEndpoint,
  byteOrder: ByteOrder = endianness(),
): number | undefined {
  for (const line of linesWith(`:${hexPort(peer.port)} `, table)) {
    const [, local, remote, state, , , , uid, , inode] = line.trim().split(/\s+/);
    if (state !== ESTABLISHED || inode === undefined || inode === '0') continue;
    if (isEndpoint(local, peer, byteOrder) && isEndpoint(remote, own, byteOrder)) return Number(uid);
  }
  return undefined;
}

/** The lines of `text` in which `needle` is. Of thousands of rows, which a minute of pulls leaves behind, one or two are looked at. */
function* linesWith(needle: string, text: string): Generator<string> {
  for (let at = text.indexOf(needle); at !== -1; ) {
    const newline = text.indexOf('\n', at);
    const end = newline === -1 ? text.length : newline;
    yield text.slice(text.lastIndexOf('\n', at) + 1, end);
    at = text.indexOf(needle, end);
  }
}

function hexPort(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0');
}

/** Whether a hexadecimal `address:port` of the table is `endpoint`. */
function isEndpoint(field: string | undefined, endpoint: TcpEndpoint, byteOrder: ByteOrder): boolean {
  const [address = '', port = ''] = field?.split(':') ?? [];
  return (
    Number.parseInt(port, 16) === endpoint.port && addressOf(address, byteOrder) === plainAddress(endpoint.address)
  );
}

/** Decodes the address field: each group of four bytes is a number in the machine's order. IPv4-mapped addresses come out as IPv4. */
function addressOf(hex: string, byteOrder: ByteOrder): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((group) => {
    const inOrder = Buffer.from(group, 'hex');
    return [...(byteOrder === 'LE' ? inOrder.reverse() : inOrder)];
  });
  const isMapped = bytes.length === 16 && bytes.slice(0, 12).join() === '0,0,0,0,0,0,0,0,0,0,255,255';
  if (bytes.length === 4 || isMapped) return bytes.slice(-4).join('.');
  return bytes.join(',') === '0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1' ? '::1' : `other:${hex}`;
}

function plainAddress(address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
}

/**
 * Whether the process at the other end of `socket` runs under one of `allowedUids`. Asked once for each connection. Anything that can't be
 * found out is a no.
 */
export async function isAdmitted(socket: Socket, allowedUids: ReadonlySet<number>): Promise<boolean> {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  if (remoteAddress === undefined || remotePort === undefined) return false;
  if (localAddress === undefined || localPort === undefined) return false;
  const peer = { address: remoteAddress, port: remotePort };
  const own = { address: localAddress, port: localPort };
  for (let look = 0; look < LOOKS; look += 1) {
    for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
      const uid = await lookUp(table, (rows) => uidInTable(rows, peer, own)).catch(() => undefined);
      if (uid !== undefined) return allowedUids.has(uid);
    }
  }
  return false;
}

/** The kernel gives the table in pieces; a row can slip between two of them when sockets come and go meanwhile. */
const LOOKS = 3;
const PIECE_BYTES = 64 * 1024;
/** Pieces between which nothing else runs; the kernel makes each of about 4 KiB. */
const PIECES_A_TURN = 64;

/**
 * What `find` finds first in whole lines of a table of /proc. The kernel writes each piece when it is read, so that reading never waits: another
 * thread would add the way there and back for each piece.
 */
async function lookUp<T>(table: string, find: (lines: string) => T | undefined): Promise<T | undefined> {
  const file = openSync(table, 'r');
  try {
    let count = 0;
    for (const lines of wholeLines(piecesOf(file))) {
      const found = find(lines);
      if (found !== undefined) return found;
      count += 1;
      if (count % PIECES_A_TURN === 0) await immediate();
    }
    return undefined;
  } finally {
    closeSync(file);
  }
}

function* piecesOf(file: number): Generator<string> {
  const piece = Buffer.allocUnsafe(PIECE_BYTES);
  for (let length = readSync(file, piece); length > 0; length = readSync(file, piece)) {
    yield piece.toString('latin1', 0, length);
  }
}

/** The pieces of a text, each cut back to whole lines; what is cut off begins the next. A last line that is not ended is left out. */
export function* wholeLines(pieces: Iterable<string>): Generator<string> {
  let rest = '';
  for (const piece of pieces) {
    const text = rest + piece;
    const end = text.lastIndexOf('\n') + 1;
    yield text.slice(0, end);
    rest = text.slice(end);
  }
}
