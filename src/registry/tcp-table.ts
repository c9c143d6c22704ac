import { readFile } from 'node:fs/promises';
import { isIPv4 } from 'node:net';

export interface TcpEndpoint {
  readonly address: string;
  readonly port: number;
}

/** All TCP sockets of this network namespace (proc(5)). */
export type TcpTable = '/proc/net/tcp' | '/proc/net/tcp6';

/** ESTABLISHED, FIN_WAIT1 and FIN_WAIT2 (proc(5); tcp_states.h of the kernel). */
export const OPEN_STATES: ReadonlySet<number> = new Set([1, 4, 5]);

/** Local end, remote end, state, uid and inode of a row. */
const ROW = /: ([0-9A-F]+:[0-9A-F]{4} [0-9A-F]+:[0-9A-F]{4}) ([0-9A-F]{2}) \S+ \S+ \S+ +(\d+) +\d+ (\d+) /g;

/**
 * An IPv4-mapped prefix, and ::1. Each four bytes are a number in the byte order of the machine.
 */
const MAPPED = '0000000000000000FFFF0000';
const LOOPBACK = '00000000000000000000000001000000';

/** By {@link rowKey}. Sockets without an inode are left out: no process has them. */
export function uidsIn(text: string): ReadonlyMap<string, number> {
  const uids = new Map<string, number>();
  for (const [, ends = '', state = '', uid, inode] of text.matchAll(ROW)) {
    if (inode === '0' || !OPEN_STATES.has(Number.parseInt(state, 16))) continue;
    uids.set(ends.replaceAll(MAPPED, ''), Number(uid));
  }
  return uids;
}

/**
 * `PEER OWN`, since its local end is our remote end; mapped IPv4 addresses as plain ones. The order
 * of bytes is that of x86-64 and arm64. Undefined for an address that is not loopback.
 */
export function rowKey(peer: TcpEndpoint, ownEnd: TcpEndpoint): string | undefined {
  const [local, remote] = [endpointIn(peer), endpointIn(ownEnd)];
  return local === undefined || remote === undefined ? undefined : `${local} ${remote}`;
}

/** The only native IPv6 address is loopback: no other one is admitted. */
function endpointIn({ address, port }: TcpEndpoint): string | undefined {
  const text = address.replace(/^::ffff:/, '');
  if (text !== '::1' && !isIPv4(text)) return undefined;
  const bytes = text.split('.').map((byte) => hexOf(Number(byte), 2));
  return `${text === '::1' ? LOOPBACK : bytes.reverse().join('')}:${hexOf(port, 4)}`;
}

function hexOf(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}

export function readTable(table: TcpTable): Promise<string> {
  return readFile(table, 'latin1');
}
