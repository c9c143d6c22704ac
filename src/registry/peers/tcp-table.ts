import { endianness } from 'node:os';

/** One end of a TCP connection as text: address and port. */
export interface TcpEndpoint {
  readonly address: string;
  readonly port: number;
}

/** The tables of all TCP sockets of this network namespace (proc(5)). */
export type TcpTable = '/proc/net/tcp' | '/proc/net/tcp6';

type ByteOrder = ReturnType<typeof endianness>;

/**
 * States of a row whose process still has the socket (proc(5); the numbers are those of the
 * kernel's tcp_states.h): ESTABLISHED, and FIN_WAIT1 and FIN_WAIT2, in which it has closed its
 * sending half only.
 */
const OPEN_STATES: ReadonlySet<string> = new Set(['01', '04', '05']);

/**
 * How a row begins, behind its number, that belongs to the other end of a connection: `PEER OWN`,
 * since its local end is our remote end. In `tcp6` an IPv4 address stands mapped into IPv6.
 * Undefined when the table has no such connection.
 *
 * @param byteOrder that of the machine which wrote the table, by default this one (s390x is
 *   big-endian)
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

/** Bytes of an address in hexadecimal, as the tables write it. */
const ADDRESS_DIGITS: Readonly<Record<TcpTable, number>> = { '/proc/net/tcp': 8, '/proc/net/tcp6': 32 };

/**
 * Looks for the rows of several connections in whole lines of a table.
 *
 * A row without an inode counts for nobody: it belongs to a socket that no process has any more,
 * and is shown with uid 0 whoever had it.
 *
 * @param wanted what is looked for by its {@link rowKey}
 * @param onFound is told what was found, and the uid that has the socket
 */
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

/** The uid in a row, from its first address on; undefined when nobody has the socket. */
function uidOf(row: string): number | undefined {
  const [, , state = '', , , , uid, , inode] = row.trim().split(/\s+/);
  return OPEN_STATES.has(state) && inode !== undefined && inode !== '0' ? Number(uid) : undefined;
}

/**
 * The start of an IPv4 address mapped into IPv6, and ::1: each group of four bytes is a number in
 * the machine's order.
 */
const WORDS = {
  LE: { mapped: '0000000000000000FFFF0000', loopback: '00000000000000000000000001000000' },
  BE: { mapped: '00000000000000000000FFFF', loopback: '00000000000000000000000000000001' },
} as const;

const HEX: readonly string[] = Array.from({ length: 256 }, (_none, byte) => hexOf(byte, 2));

/** Of IPv6 only loopback is known: nothing else is admitted. */
function endpointIn(table: TcpTable, { address, port }: TcpEndpoint, byteOrder: ByteOrder): string | undefined {
  const isShort = table === '/proc/net/tcp';
  if (address === '::1') return isShort ? undefined : `${WORDS[byteOrder].loopback}:${hexOf(port, 4)}`;
  const word = wordOf(address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address, byteOrder);
  if (word === undefined) return undefined;
  return `${isShort ? '' : WORDS[byteOrder].mapped}${word}:${hexOf(port, 4)}`;
}

/** An IPv4 address as the kernel writes it; undefined for anything else. */
function wordOf(address: string, byteOrder: ByteOrder): string | undefined {
  const [a, b, c, d, ...more] = address.split('.').map((byte) => HEX[Number(byte)]);
  if (a === undefined || b === undefined || c === undefined || d === undefined || more.length > 0) return undefined;
  return byteOrder === 'LE' ? d + c + b + a : a + b + c + d;
}

function hexOf(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}
