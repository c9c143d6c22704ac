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
 * States of a row whose process still has the socket (proc(5); the numbers are those of the kernel's tcp_states.h): ESTABLISHED, and FIN_WAIT1 and FIN_WAIT2,
 * in which it has closed its sending half only.
 */
const OPEN_STATES: ReadonlySet<string> = new Set(['01', '04', '05']);

/**
 * How a row begins, behind its number, that belongs to the other end of a connection: `PEER OWN`, since its local end is our remote end. In `tcp6` an IPv4
 * address stands mapped into IPv6. Undefined when the table has no such connection.
 *
 * @param byteOrder that of the machine which wrote the table, by default this one (s390x is big-endian)
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
 * A row without an inode counts for nobody: it belongs to a socket that no process has any more, and is shown with uid 0 whoever had it.
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

function endpointIn(table: TcpTable, { address, port }: TcpEndpoint, byteOrder: ByteOrder): string | undefined {
  const bytes = bytesOf(address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address);
  if (bytes === undefined) return undefined;
  const isShort = table === '/proc/net/tcp';
  if (isShort && bytes.length !== 4) return undefined;
  const all = isShort || bytes.length === 16 ? bytes : [...MAPPED, ...bytes];
  return `${hexOf(all, byteOrder)}:${port.toString(16).toUpperCase().padStart(4, '0')}`;
}

/** The first twelve bytes of an IPv4 address mapped into IPv6. */
const MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255];
const LOOPBACK_6 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/** Only loopback of IPv6 is known: nothing else is admitted. */
function bytesOf(address: string): number[] | undefined {
  if (address === '::1') return LOOPBACK_6;
  const bytes = address.split('.').map(Number);
  return bytes.length === 4 && bytes.every((byte) => byte >= 0 && byte <= 255) ? bytes : undefined;
}

/** Each group of four bytes is a number in the machine's order. */
function hexOf(bytes: readonly number[], byteOrder: ByteOrder): string {
  const groups = Array.from({ length: bytes.length / 4 }, (_none, at) => bytes.slice(4 * at, 4 * at + 4));
  return Buffer.from(groups.flatMap((group) => (byteOrder === 'LE' ? group.toReversed() : group)))
    .toString('hex')
    .toUpperCase();
}
