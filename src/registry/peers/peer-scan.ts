import { setImmediate as immediate } from 'node:timers/promises';
import type { Clock } from '../../platform/clock.ts';
import { readTable } from './read-table.ts';
import { findRows, rowKey, type TcpTable } from './tcp-table.ts';

/** What is looked at of a `net.Socket`. */
export interface PeerSocket {
  readonly destroyed: boolean;
  /**
   * Undefined when the other end has reset the connection. Node asks the kernel at the first use
   * and remembers the answer.
   */
  readonly remoteAddress?: string | undefined;
  readonly remotePort?: number | undefined;
  readonly localAddress?: string | undefined;
  readonly localPort?: number | undefined;
}

/** Finds out whose processes are at the other ends of loopback connections. */
export interface PeerScan {
  /**
   * The uid of the process that has the other end open; undefined when nobody has, or when it can't
   * be found out. Never rejects.
   */
  uidOf(socket: PeerSocket): Promise<number | undefined>;
}

/** What {@link createPeerScan} needs. */
export interface PeerScanDeps {
  readonly clock: Clock;
  /** Reads a table in pieces of whole lines; default from /proc. */
  readonly read?: (table: TcpTable) => AsyncIterable<string>;
}

/**
 * The kernel gives a table in pieces; a row can slip between two of them when sockets come and go
 * meanwhile.
 */
const LOOKS = 3;
/**
 * Pause after a scan, in its own durations: scans take a fifth of the time at most, however many
 * ask.
 */
const PAUSE_FACTOR = 4;
const LONGEST_PAUSE_MS = 250;
/**
 * The pause ends early for so many: shared among them a scan costs little, and there is a limit to
 * how many may wait.
 */
const CROWD = 2_048;
/** How often it is looked in a pause whether there is a crowd. */
const LOOK_MS = 20;
const TABLES: readonly TcpTable[] = ['/proc/net/tcp', '/proc/net/tcp6'];

interface Question {
  readonly socket: PeerSocket;
  readonly answer: (uid: number | undefined) => void;
  looks: number;
}

interface Desk {
  readonly clock: Clock;
  readonly read: (table: TcpTable) => AsyncIterable<string>;
  readonly open: Set<Question>;
  isBusy: boolean;
  /** Monotonic time before which no scan begins. */
  notBeforeMs: number;
}

/**
 * Makes a {@link PeerScan}. All that ask while a scan is under way, or in the pause behind one,
 * share the next. A socket that is closed by then costs none.
 */
export function createPeerScan({ clock, read = readTable }: PeerScanDeps): PeerScan {
  const desk: Desk = { clock, read, open: new Set(), isBusy: false, notBeforeMs: 0 };
  return {
    uidOf: (socket) =>
      new Promise((answer) => {
        desk.open.add({ socket, answer, looks: 0 });
        if (!desk.isBusy) void work(desk);
      }),
  };
}

const forever = new AbortController().signal;

async function work(desk: Desk): Promise<void> {
  desk.isBusy = true;
  while (desk.open.size > 0) {
    await pause(desk);
    dropClosed(desk.open);
    if (desk.open.size === 0) break;
    const startedMs = desk.clock.monotonic();
    await scan(desk);
    const nowMs = desk.clock.monotonic();
    desk.notBeforeMs = nowMs + Math.min(LONGEST_PAUSE_MS, PAUSE_FACTOR * (nowMs - startedMs));
  }
  desk.isBusy = false;
}

async function pause({ clock, open, notBeforeMs }: Desk): Promise<void> {
  await immediate(); // connections that come in the same turn share the scan
  for (;;) {
    const leftMs = notBeforeMs - clock.monotonic();
    if (leftMs <= 0 || open.size >= CROWD) return;
    await clock.sleep(Math.min(leftMs, LOOK_MS), forever);
  }
}

/**
 * INVARIANT: nobody asks a socket for its addresses before this does; the first answer of the
 * kernel tells whether it was reset.
 */
function dropClosed(open: Set<Question>): void {
  for (const question of open) {
    const { socket } = question;
    if (!socket.destroyed && socket.remoteAddress !== undefined) continue;
    open.delete(question);
    question.answer(undefined);
  }
}

/**
 * One look into the tables for all that are open now. The second one is read only while somebody is
 * not found.
 */
async function scan({ open, read }: Desk): Promise<void> {
  const asked = new Set(open);
  for (const table of TABLES) {
    const wanted = new Map<string, Question>();
    for (const question of asked) {
      const key = keyIn(table, question.socket);
      if (key !== undefined) wanted.set(key, question);
    }
    if (wanted.size === 0) continue;
    try {
      for await (const lines of read(table)) {
        findRows(table, lines, wanted, (question, uid) => {
          asked.delete(question);
          open.delete(question);
          question.answer(uid);
        });
      }
    } catch {
      // There is no tcp6 without IPv6. Who is not found is not admitted.
    }
  }
  for (const question of asked) {
    question.looks += 1;
    if (question.looks < LOOKS) continue;
    open.delete(question);
    question.answer(undefined);
  }
}

function keyIn(table: TcpTable, socket: PeerSocket): string | undefined {
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  if (remoteAddress === undefined || remotePort === undefined) return undefined;
  if (localAddress === undefined || localPort === undefined) return undefined;
  return rowKey(table, { address: remoteAddress, port: remotePort }, { address: localAddress, port: localPort });
}
