import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';
import { type PeerSocket, PeerUsers } from '../../../src/registry/peer-users.ts';
import type { DiagReply, FindPeer } from '../../../src/registry/sock-diag.ts';
import { rowKey, type TcpTable } from '../../../src/registry/tcp-table.ts';

const OWN = { address: '127.0.0.1', port: 5317 };

const socketOf = (port: number): PeerSocket => ({
  destroyed: false,
  remoteAddress: '127.0.0.1',
  remotePort: port,
  localAddress: OWN.address,
  localPort: OWN.port,
});

/** What Node shows of a socket that the other end has reset. */
const reset: PeerSocket = {
  destroyed: false,
  remoteAddress: undefined,
  localAddress: OWN.address,
  localPort: OWN.port,
};

const noDiag = async () => undefined;

const rowOf = (port: number, uid: number) =>
  ` 0: ${rowKey({ address: '127.0.0.1', port }, OWN)} 01 0:0 0:0 0 ${uid} 0 77 1\n`;

interface Bench {
  readonly scan: PeerUsers;
  /** The tables that were read, in order. */
  readonly reads: TcpTable[];
  /** Pauses that were made, in ms. */
  readonly pauses: number[];
  /** Uids by port, as the tables show them. */
  readonly rows: Map<number, { table: TcpTable; uid: number }>;
}

/** A scan over tables of the test's own, each of which takes `readMs` to read. */
function createBench(readMs = 0, onRead: (bench: Pick<Bench, 'reads' | 'rows'>) => void = () => undefined): Bench {
  let nowMs = 0;
  const bench = {
    reads: [] as TcpTable[],
    pauses: [] as number[],
    rows: new Map<number, { table: TcpTable; uid: number }>(),
  };
  const clock = {
    ...systemClock,
    monotonic: () => nowMs,
    sleep: async (ms: number) => {
      bench.pauses.push(ms);
      nowMs += ms;
    },
  };
  const read = async (table: TcpTable) => {
    bench.reads.push(table);
    nowMs += readMs;
    onRead(bench);
    return [...bench.rows].map(([port, row]) => (row.table === table ? rowOf(port, row.uid) : '')).join('');
  };
  return { ...bench, scan: new PeerUsers({ clock, openDiag: noDiag, read }) };
}

const TCP = '/proc/net/tcp';
const TCP6 = '/proc/net/tcp6';

describe('PeerUsers with sock_diag', () => {
  /** A scan whose tables have uid 5 for each port, and the replies of the kernel. */
  const asking = (replies: ReadonlyMap<number, DiagReply>) => {
    const reads: TcpTable[] = [];
    const requested: number[] = [];
    const read = async (table: TcpTable) => {
      reads.push(table);
      return [1, 2, 3].map((port) => rowOf(port, 5)).join('');
    };
    const openDiag = async (): Promise<FindPeer> => (peer) => {
      requested.push(peer.port);
      return replies.get(peer.port) ?? { kind: 'absent' };
    };
    return { scan: new PeerUsers({ clock: systemClock, read, openDiag }), reads, requested };
  };

  it('reads no table for what the kernel knows, nor for what is absent once it has known one', async () => {
    const { scan, reads } = asking(new Map([[1, { kind: 'found', uid: 1_000 }]]));
    expect(await scan.uidOf(socketOf(1))).toBe(1_000);
    expect(await scan.uidOf(socketOf(2))).toBeUndefined();
    expect(reads).toEqual([]);
  });

  it('reads the tables for what is absent while it has known none, and for what it does not know', async () => {
    const { scan, reads } = asking(new Map([[3, { kind: 'unknown' }]]));
    expect(await scan.uidOf(socketOf(2))).toBe(5);
    expect(await scan.uidOf(socketOf(3))).toBe(5);
    expect(reads).toEqual([TCP, TCP6, TCP, TCP6]);
  });

  it('requests nothing about a connection that was reset', async () => {
    const { scan, reads, requested } = asking(new Map());
    expect(await scan.uidOf(reset)).toBeUndefined();
    expect([reads, requested]).toEqual([[], []]);
  });

  it.each([
    ['can not be opened', () => Promise.reject(new Error('no netlink'))],
    ['is not there', async () => undefined],
  ])('reads the tables where sock_diag %s', async (_what, openDiag) => {
    const read = async () => rowOf(1, 5);
    expect(await new PeerUsers({ clock: systemClock, read, openDiag }).uidOf(socketOf(1))).toBe(5);
  });
});

describe('PeerUsers without sock_diag', () => {
  it('reads each table once for all requests of one turn of the event loop', async () => {
    const { scan, reads, rows } = createBench();
    const ports = Array.from({ length: 1_000 }, (_none, at) => 40_000 + at);
    for (const port of ports) rows.set(port, { table: TCP, uid: port });
    expect(await Promise.all(ports.map((port) => scan.uidOf(socketOf(port))))).toEqual(ports);
    expect(reads).toEqual([TCP, TCP6]);
  });

  it('reads no table for sockets that are closed already', async () => {
    const { scan, reads } = createBench();
    const requested = [reset, { ...socketOf(1), destroyed: true }].map((socket) => scan.uidOf(socket));
    expect(await Promise.all(requested)).toEqual([undefined, undefined]);
    expect(reads).toEqual([]);
  });

  it('finds sockets in the table of IPv6, too', async () => {
    const { scan, reads, rows } = createBench();
    rows.set(1, { table: TCP, uid: 7 }).set(2, { table: TCP6, uid: 8 });
    expect(await Promise.all([scan.uidOf(socketOf(1)), scan.uidOf(socketOf(2))])).toEqual([7, 8]);
    expect(reads).toEqual([TCP, TCP6]);
  });

  it('reads three times for all missing sockets, not three times for each', async () => {
    const { scan, reads } = createBench();
    const lost = Array.from({ length: 500 }, (_none, at) => scan.uidOf(socketOf(at + 1)));
    expect(new Set(await Promise.all(lost))).toEqual(new Set([undefined]));
    expect(reads).toEqual([TCP, TCP6, TCP, TCP6, TCP, TCP6]);
  });

  it('finds a socket whose row was not in the first read', async () => {
    const { scan } = createBench(0, ({ reads, rows }) => {
      if (reads.length > 2) rows.set(1, { table: TCP, uid: 7 });
    });
    expect(await scan.uidOf(socketOf(1))).toBe(7);
  });

  it('pauses for four times as long as the last scan took, and a quarter of a second at most', async () => {
    for (const [readMs, pauseMs] of [
      [5, 40],
      [200, 250],
    ] as const) {
      const { scan, pauses, rows } = createBench(readMs);
      rows.set(1, { table: TCP, uid: 7 });
      await scan.uidOf(socketOf(1));
      await scan.uidOf(socketOf(1));
      expect(pauses.reduce((sum, ms) => sum + ms, 0)).toBe(pauseMs);
    }
  });

  it('admits no connection when the tables can not be read', async () => {
    const read = () => Promise.reject(new Error('ENOENT'));
    expect(await new PeerUsers({ clock: systemClock, openDiag: noDiag, read }).uidOf(socketOf(1))).toBeUndefined();
  });
});
