import { closeSync, openSync, readSync } from 'node:fs';
import { endianness } from 'node:os';
import { setImmediate as immediate } from 'node:timers/promises';

export interface TcpEndpoint {
  readonly address: string;
  readonly port: number;
}

/** All TCP sockets of this network namespace (proc(5)). */
export type TcpTable = '/proc/net/tcp' | '/proc/net/tcp6';

type ByteOrder = ReturnType<typeof endianness>;

/** ESTABLISHED, FIN_WAIT1 and FIN_WAIT2 (proc(5); tcp_states.h of the kernel). */
export const OPEN_STATES: ReadonlySet<number> = new Set([1, 4, 5]);

/**
 * The text after the row number: `PEER OWN`, since its local end is our remote end. In `tcp6` an
 * IPv4 address is mapped. Undefined when the table can't have the connection.
 * @param byteOrder default: of this machine (s390x is big-endian)
 */
export function rowKey(
  table: TcpTable,
  peer: TcpEndpoint,
  own: TcpEndpoint,
  byteOrder: ByteOrder = endianness(),
): string | undefined {
  const local = endpointIn(table, peer, byteOrder);
  const remote = endpointIn(table, own, byteOrder);
  return local === undefined || remote === undefined ? undefined : `${local} ${remote}`;
}

/** In hexadecimal digits. */
const ADDRESS_DIGITS: Readonly<Record<TcpTable, number>> = { '/proc/net/tcp': 8, '/proc/net/tcp6': 32 };

/** Calls `onFound` with the uid. Without an inode no process has the socket, and the uid is 0. */
export function findRows<T>(
  table: TcpTable,
  lines: string,
  wanted: ReadonlyMap<string, T>,
  onFound: (one: T, uid: number) => void,
): void {
  // Two addresses, each with a colon and four digits of a port, and a space between them.
  const keyLength = 2 * (ADDRESS_DIGITS[table] + 5) + 1;
  for (let at = 0; at < lines.length; ) {
    const newline = lines.indexOf('\n', at);
    const end = newline === -1 ? lines.length : newline;
    const from = lines.indexOf(': ', at) + 2;
    const one = from === 1 ? undefined : wanted.get(lines.slice(from, from + keyLength));
    if (one !== undefined) {
      const uid = uidOf(lines.slice(from, end));
      if (uid !== undefined) onFound(one, uid);
    }
    at = end + 1;
  }
}

/** Undefined when no process has the socket. */
function uidOf(row: string): number | undefined {
  const [, , state = '', , , , uid, , inode] = row.trim().split(/\s+/);
  return OPEN_STATES.has(Number.parseInt(state, 16)) && inode !== undefined && inode !== '0' ? Number(uid) : undefined;
}

/**
 * An IPv4-mapped prefix, and ::1. Each four bytes are a number in the byte order of the machine.
 */
const WORDS = {
  LE: { mapped: '0000000000000000FFFF0000', loopback: '00000000000000000000000001000000' },
  BE: { mapped: '00000000000000000000FFFF', loopback: '00000000000000000000000000000001' },
} as const;

const HEX: readonly string[] = Array.from({ length: 256 }, (_none, byte) => hexOf(byte, 2));

/** The only native IPv6 address is loopback: no other one is admitted. */
function endpointIn(table: TcpTable, { address, port }: TcpEndpoint, byteOrder: ByteOrder): string | undefined {
  const isShort = table === '/proc/net/tcp';
  if (address === '::1') return isShort ? undefined : `${WORDS[byteOrder].loopback}:${hexOf(port, 4)}`;
  const word = wordOf(address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address, byteOrder);
  if (word === undefined) return undefined;
  return `${isShort ? '' : WORDS[byteOrder].mapped}${word}:${hexOf(port, 4)}`;
}

/** Undefined for anything else. */
function wordOf(address: string, byteOrder: ByteOrder): string | undefined {
  const [a, b, c, d, ...more] = address.split('.').map((byte) => HEX[Number(byte)]);
  if (a === undefined || b === undefined || c === undefined || d === undefined || more.length > 0) return undefined;
  return byteOrder === 'LE' ? d + c + b + a : a + b + c + d;
}

function hexOf(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}

const PIECE_BYTES = 64 * 1024;
/** Between two yields to the event loop. The kernel returns about 4 KiB for each. */
const PIECES_A_TURN = 64;

/** Synchronous: the kernel never blocks here. @throws Error; without IPv6 there is no `tcp6` */
export async function* readTable(table: TcpTable): AsyncGenerator<string> {
  const file = openSync(table, 'r');
  try {
    let count = 0;
    for (const lines of wholeLines(piecesOf(file))) {
      yield lines;
      count += 1;
      if (count % PIECES_A_TURN === 0) await immediate();
    }
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

/** The cut part starts the next piece. A last line without a newline is dropped. */
export function* wholeLines(pieces: Iterable<string>): Generator<string> {
  let rest = '';
  for (const piece of pieces) {
    const text = rest + piece;
    const end = text.lastIndexOf('\n') + 1;
    yield text.slice(0, end);
    rest = text.slice(end);
  }
}
