import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';

/** State ESTABLISHED in proc(5), "/proc/net/tcp". */
const ESTABLISHED = '01';

/** One end of a TCP connection as text: address and port. */
export interface TcpEndpoint {
  readonly address: string;
  readonly port: number;
}

/**
 * The uid that owns the other end of a loopback connection, from the text of `/proc/net/tcp` or `tcp6`, or undefined when no row tells. The
 * row wanted is the peer's own: its local end is our remote end. Rows without an inode (TIME_WAIT and half-closed sockets, shown with uid 0)
 * do not count.
 */
export function uidInTable(table: string, peer: TcpEndpoint, own: TcpEndpoint): number | undefined {
  for (const line of table.split('\n').slice(1)) {
    const [, local, remote, state, , , , uid, , inode] = line.trim().split(/\s+/);
    if (state !== ESTABLISHED || inode === undefined || inode === '0') continue;
    if (isEndpoint(local, peer) && isEndpoint(remote, own)) return Number(uid);
  }
  return undefined;
}

/** Whether a hexadecimal `address:port` of the table is `endpoint`. */
function isEndpoint(field: string | undefined, endpoint: TcpEndpoint): boolean {
  const [address = '', port = ''] = field?.split(':') ?? [];
  return Number.parseInt(port, 16) === endpoint.port && addressOf(address) === plainAddress(endpoint.address);
}

/** Decodes the address field: each group of four bytes is a number in host (little-endian) order. IPv4-mapped addresses come out as IPv4. */
function addressOf(hex: string): string {
  const bytes = (hex.match(/.{8}/g) ?? []).flatMap((group) => [...Buffer.from(group, 'hex').reverse()]);
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
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const uid = uidInTable(await readFile(table, 'latin1').catch(() => ''), peer, own);
    if (uid !== undefined) return allowedUids.has(uid);
  }
  return false;
}
