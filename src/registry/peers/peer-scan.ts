import { setImmediate as immediate } from 'node:timers/promises';
import type { Clock } from '../../platform/clock.ts';
import type { FindPeer } from './socket-diag.ts';
import { findRows, readTable, rowKey, type TcpTable } from './tcp-table.ts';

export interface PeerSocket {
  readonly destroyed: boolean;
  /**
   * Undefined when the other end has reset the connection. Node.js asks the kernel at the first use
   * and caches the answer.
   */
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** Finds the users at the other ends of loopback connections. */
export interface PeerScan {
  /**
   * The uid of the process that has the other end open. Undefined when there is none, or when it is
   * not found. Never rejects.
   */
  uidOf(socket: PeerSocket): Promise<number | undefined>;
}

export interface PeerScanDeps {
  readonly clock: Clock;
  /**
   * Opens a way to ask the kernel for one connection; called once, at the first lookup. Undefined:
   * there is none. Default: only the tables are read.
   */
  readonly openDiag?: () => Promise<FindPeer | undefined>;
  /** Reads a table in pieces of whole lines. Default: from /proc. */
  readonly read?: (table: TcpTable) => AsyncIterable<string>;
}

/**
 * Number of scans before a socket counts as not found. The kernel returns a table in pieces, and a
 * row may fall between two of them while sockets open and close.
 */
const SCANS = 3;
/** Pause after a scan, as a multiple of its duration. So scans take at most a fifth of the time. */
const PAUSE_FACTOR = 4;
const LONGEST_PAUSE_MS = 250;
/**
 * With this many waiting connections the pause ends early: one scan serves them all, and the number
 * of waiting connections is limited.
 */
const CROWD = 2_048;
/** How often the number of waiting connections is checked in a pause. */
const CHECK_MS = 20;
const TABLES: readonly TcpTable[] = ['/proc/net/tcp', '/proc/net/tcp6'];

interface Lookup {
  readonly socket: PeerSocket;
  readonly answer: (uid: number | undefined) => void;
  scans: number;
}

interface ScanQueue {
  readonly clock: Clock;
  readonly read: (table: TcpTable) => AsyncIterable<string>;
  readonly open: Set<Lookup>;
  isBusy: boolean;
  /** Monotonic time before which no scan begins. */
  notBeforeMs: number;
}

/**
 * Makes a {@link PeerScan}. The kernel is asked for the connection. Where it can't be asked, its
 * tables are scanned. All lookups during a scan, or in the pause after it, share the next scan. A
 * socket that is closed by then needs no scan.
 */
export function createPeerScan({ clock, openDiag, read = readTable }: PeerScanDeps): PeerScan {
  const queue: ScanQueue = { clock, read, open: new Set(), isBusy: false, notBeforeMs: 0 };
  const scanFor = (socket: PeerSocket) =>
    new Promise<number | undefined>((answer) => {
      queue.open.add({ socket, answer, scans: 0 });
      if (!queue.isBusy) void work(queue);
    });
  let opening: Promise<FindPeer | undefined> | undefined;
  // A kernel without the module for TCP answers as if there were no such connection.
  let isProven = false;
  return {
    uidOf: async (socket) => {
      if (openDiag === undefined) return scanFor(socket);
      opening ??= openDiag().catch(() => undefined);
      const find = await opening;
      if (find === undefined) return scanFor(socket);
      const { remoteAddress, remotePort, localAddress, localPort } = socket;
      if (remoteAddress === undefined || remotePort === undefined) return undefined;
      if (localAddress === undefined || localPort === undefined) return undefined;
      const reply = find({ address: remoteAddress, port: remotePort }, { address: localAddress, port: localPort });
      if (reply.kind === 'found') isProven = true;
      if (reply.kind === 'found') return reply.uid;
      return reply.kind === 'absent' && isProven ? undefined : scanFor(socket);
    },
  };
}

const forever = new AbortController().signal;

async function work(queue: ScanQueue): Promise<void> {
  queue.isBusy = true;
  while (queue.open.size > 0) {
    await pause(queue);
    dropClosed(queue.open);
    if (queue.open.size === 0) break;
    const startedMs = queue.clock.monotonic();
    await scan(queue);
    const nowMs = queue.clock.monotonic();
    queue.notBeforeMs = nowMs + Math.min(LONGEST_PAUSE_MS, PAUSE_FACTOR * (nowMs - startedMs));
  }
  queue.isBusy = false;
}

async function pause({ clock, open, notBeforeMs }: ScanQueue): Promise<void> {
  await immediate(); // connections of the same event-loop turn share the scan
  for (;;) {
    const leftMs = notBeforeMs - clock.monotonic();
    if (leftMs <= 0 || open.size >= CROWD) return;
    await clock.sleep(Math.min(leftMs, CHECK_MS), forever);
  }
}

/**
 * INVARIANT: this is the first use of the addresses of a socket. The first answer of the kernel
 * says whether it was reset.
 */
function dropClosed(open: Set<Lookup>): void {
  for (const lookup of open) {
    const { socket } = lookup;
    if (!socket.destroyed && socket.remoteAddress !== undefined) continue;
    open.delete(lookup);
    lookup.answer(undefined);
  }
}

/**
 * Scans the tables once for all current lookups. The second table is read only if some are not
 * found in the first.
 */
async function scan({ open, read }: ScanQueue): Promise<void> {
  const asked = new Set(open);
  for (const table of TABLES) {
    const wanted = new Map<string, Lookup>();
    for (const lookup of asked) {
      const key = keyIn(table, lookup.socket);
      if (key !== undefined) wanted.set(key, lookup);
    }
    if (wanted.size === 0) continue;
    try {
      for await (const lines of read(table)) {
        findRows(table, lines, wanted, (lookup, uid) => {
          asked.delete(lookup);
          open.delete(lookup);
          lookup.answer(uid);
        });
        if (asked.size === 0) return;
      }
    } catch {
      // There is no tcp6 without IPv6. A connection that is not found is not admitted.
    }
  }
  for (const lookup of asked) {
    lookup.scans += 1;
    if (lookup.scans < SCANS) continue;
    open.delete(lookup);
    lookup.answer(undefined);
  }
}

function keyIn(table: TcpTable, socket: PeerSocket): string | undefined {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  if (remoteAddress === undefined || remotePort === undefined) return undefined;
  if (localAddress === undefined || localPort === undefined) return undefined;
  return rowKey(table, { address: remoteAddress, port: remotePort }, { address: localAddress, port: localPort });
}
