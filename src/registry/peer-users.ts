import { setImmediate as immediate } from 'node:timers/promises';
import { NEVER_ABORTED } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import { type FindPeer, openSocketDiag } from './sock-diag.ts';
import { readTable, rowKey, type TcpEndpoint, type TcpTable, uidsIn } from './tcp-table.ts';

export interface PeerSocket {
  readonly destroyed: boolean;
  /** Undefined after a reset. Node.js queries the kernel at the first use and caches the answer. */
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** Scans before a socket counts as not found: a row may fall between two pieces of a table. */
const SCANS = 3;
/** A multiple of the duration of a scan, so that scans take at most a fifth of the time. */
const PAUSE_FACTOR = 4;
const LONGEST_PAUSE_MS = 250;

interface PeerUsersOptions {
  readonly clock: Clock;
  /** Tests replace it. Default: sock_diag(7). */
  readonly openDiag?: () => Promise<FindPeer | undefined>;
  /** Tests replace it. Default: the tables in /proc are read. */
  readonly read?: (table: TcpTable) => Promise<string>;
}

/**
 * Finds the users at the other ends of loopback connections. A query for one connection takes some
 * microseconds. The tables of the kernel take milliseconds: they have a row for each of some
 * hundred thousand hashes. They are scanned only without sock_diag (no module `tcp_diag`, a sandbox
 * without netlink, no native module). All lookups during a scan, or in the pause after it, share
 * the next scan.
 */
export class PeerUsers {
  private readonly clock: Clock;
  private readonly openDiag: () => Promise<FindPeer | undefined>;
  private readonly read: (table: TcpTable) => Promise<string>;
  private opening: Promise<FindPeer | undefined> | undefined;
  /** A kernel without `tcp_diag` answers as if there were no such connection. */
  private isDiagProven = false;
  private last: Promise<void> = Promise.resolve();
  /** The scan that has not begun. */
  private next: Promise<void> | undefined;
  /** Monotonic time of the next scan. */
  private notBeforeMs = 0;
  /** What the last scan found, by the keys of rows. */
  private uids: ReadonlyMap<string, number> = new Map();

  constructor({ clock, openDiag = openSocketDiag, read = readTable }: PeerUsersOptions) {
    this.clock = clock;
    this.openDiag = openDiag;
    this.read = read;
  }

  /** Who runs the process at the other end. Undefined when it is not found. Never rejects. */
  async uidOf(socket: PeerSocket): Promise<number | undefined> {
    this.opening ??= this.openDiag().catch(() => undefined);
    const find = await this.opening;
    const ends = endsOf(socket);
    if (ends === undefined) return undefined;
    const reply = find?.(...ends) ?? { kind: 'unknown' };
    if (reply.kind === 'found') {
      this.isDiagProven = true;
      return reply.uid;
    }
    if (reply.kind === 'absent' && this.isDiagProven) return undefined;
    const key = rowKey(...ends);
    for (let scans = 0; key !== undefined && scans < SCANS && !socket.destroyed; scans += 1) {
      await this.nextScan();
      const uid = this.uids.get(key);
      if (uid !== undefined) return uid;
    }
    return undefined;
  }

  /** It begins after the call. */
  private nextScan(): Promise<void> {
    if (this.next === undefined) {
      this.next = this.last.then(() => this.scan());
      this.last = this.next;
    }
    return this.next;
  }

  private async scan(): Promise<void> {
    const { clock } = this;
    await immediate(); // lookups of the same event-loop turn share the scan
    const pauseMs = this.notBeforeMs - clock.monotonic();
    if (pauseMs > 0) await clock.sleep(pauseMs, NEVER_ABORTED);
    this.next = undefined;
    const startedMs = clock.monotonic();
    // There is no tcp6 without IPv6. A connection that is not found is not admitted.
    const textOf = (table: TcpTable) => this.read(table).catch(() => '');
    const first = uidsIn(await textOf('/proc/net/tcp'));
    await immediate();
    this.uids = new Map([...first, ...uidsIn(await textOf('/proc/net/tcp6'))]);
    const nowMs = clock.monotonic();
    this.notBeforeMs = nowMs + Math.min(LONGEST_PAUSE_MS, PAUSE_FACTOR * (nowMs - startedMs));
  }
}

/** Undefined for a connection that was reset. */
function endsOf(socket: PeerSocket): [peer: TcpEndpoint, own: TcpEndpoint] | undefined {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  if (remoteAddress === undefined || remotePort === undefined) return undefined;
  if (localAddress === undefined || localPort === undefined) return undefined;
  return [
    { address: remoteAddress, port: remotePort },
    { address: localAddress, port: localPort },
  ];
}
