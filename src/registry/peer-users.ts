import { setImmediate as immediate } from 'node:timers/promises';
import { NEVER_ABORTED } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import { type FindPeer, openSocketDiag } from './sock-diag.ts';
import { findRows, readTable, rowKey, type TcpEndpoint, type TcpTable } from './tcp-table.ts';

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
/** So many waiting connections end the pause: one scan serves them all. */
const MANY = 2_048;
/** In a pause. */
const CHECK_MS = 20;
const TABLES: readonly TcpTable[] = ['/proc/net/tcp', '/proc/net/tcp6'];

interface Lookup {
  readonly socket: PeerSocket;
  readonly resolve: (uid: number | undefined) => void;
  scans: number;
}

interface PeerUsersOptions {
  readonly clock: Clock;
  /** For tests; default: sock_diag(7). */
  readonly openDiag?: () => Promise<FindPeer | undefined>;
  /** For tests; default: from /proc. */
  readonly read?: (table: TcpTable) => AsyncIterable<string>;
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
  private readonly read: (table: TcpTable) => AsyncIterable<string>;
  private opening: Promise<FindPeer | undefined> | undefined;
  /** A kernel without `tcp_diag` answers as if there were no such connection. */
  private isDiagProven = false;
  private readonly open = new Set<Lookup>();
  private isScanning = false;
  /** Monotonic time of the next scan. */
  private notBeforeMs = 0;

  constructor({ clock, openDiag = openSocketDiag, read = readTable }: PeerUsersOptions) {
    this.clock = clock;
    this.openDiag = openDiag;
    this.read = read;
  }

  /** Of the process that has the other end open. Undefined when it is not found. Never rejects. */
  async uidOf(socket: PeerSocket): Promise<number | undefined> {
    this.opening ??= this.openDiag().catch(() => undefined);
    const find = await this.opening;
    if (find === undefined) return this.scanFor(socket);
    const ends = endsOf(socket);
    if (ends === undefined) return undefined;
    const reply = find(...ends);
    if (reply.kind === 'found') {
      this.isDiagProven = true;
      return reply.uid;
    }
    return reply.kind === 'absent' && this.isDiagProven ? undefined : this.scanFor(socket);
  }

  private scanFor(socket: PeerSocket): Promise<number | undefined> {
    return new Promise((resolve) => {
      this.open.add({ socket, resolve, scans: 0 });
      if (!this.isScanning) void this.scanAll();
    });
  }

  private async scanAll(): Promise<void> {
    this.isScanning = true;
    while (this.open.size > 0) {
      await this.pause();
      this.dropClosed();
      if (this.open.size === 0) break;
      const startedMs = this.clock.monotonic();
      await this.scan();
      const nowMs = this.clock.monotonic();
      this.notBeforeMs = nowMs + Math.min(LONGEST_PAUSE_MS, PAUSE_FACTOR * (nowMs - startedMs));
    }
    this.isScanning = false;
  }

  private async pause(): Promise<void> {
    await immediate(); // connections of the same event-loop turn share the scan
    for (;;) {
      const leftMs = this.notBeforeMs - this.clock.monotonic();
      if (leftMs <= 0 || this.open.size >= MANY) return;
      await this.clock.sleep(Math.min(leftMs, CHECK_MS), NEVER_ABORTED);
    }
  }

  /** INVARIANT: the first use of the addresses of a socket, whose answer Node.js caches. */
  private dropClosed(): void {
    for (const lookup of this.open) {
      if (!lookup.socket.destroyed && lookup.socket.remoteAddress !== undefined) continue;
      this.settle(lookup, undefined);
    }
  }

  private settle(lookup: Lookup, uid: number | undefined): void {
    this.open.delete(lookup);
    lookup.resolve(uid);
  }

  /** Only lookups that the first table lacks need the second. */
  private async scan(): Promise<void> {
    const lookups = new Set(this.open);
    for (const table of TABLES) {
      const wanted = new Map<string, Lookup>();
      for (const lookup of lookups) {
        const ends = endsOf(lookup.socket);
        const key = ends && rowKey(table, ...ends);
        if (key !== undefined) wanted.set(key, lookup);
      }
      if (wanted.size === 0) continue;
      try {
        for await (const lines of this.read(table)) {
          findRows(table, lines, wanted, (lookup, uid) => {
            lookups.delete(lookup);
            this.settle(lookup, uid);
          });
          if (lookups.size === 0) return;
        }
      } catch {
        // There is no tcp6 without IPv6. A connection that is not found is not admitted.
      }
    }
    for (const lookup of lookups) {
      lookup.scans += 1;
      if (lookup.scans >= SCANS) this.settle(lookup, undefined);
    }
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
