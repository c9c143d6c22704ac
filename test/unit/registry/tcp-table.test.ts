import { describe, expect, it } from 'vitest';
import { readTable, rowKey, uidsIn } from '../../../src/registry/tcp-table.ts';

const HEADER =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     ';
const at = (address: string, port: number) => ({ address, port });
const peer = at('127.0.0.1', 40000);
const own = at('127.0.0.1', 5317);

/**
 * Rows as Linux 6.12 writes them: our listener, the peer's end, our end, one in TIME_WAIT, one
 * without inode, one that waits for its process to close.
 */
const TCP = `${HEADER}
   0: 0100007F:14C5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 23456 1 ffff9d5e 100 0 0 10 0
   1: 0100007F:9C40 0100007F:14C5 01 00000000:00000000 00:00000000 00000000  1000        0 34567 1 ffff9d5e 20 4 30 10 -1
   2: 0100007F:14C5 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 34568 1 ffff9d5e 20 4 30 10 -1
   3: 0100007F:9C42 0100007F:14C5 06 00000000:00000000 03:000004E2 00000000     0        0 0 3 ffff9d5e
   4: 0100007F:9C43 0100007F:14C5 01 00000000:00000000 00:00000000 00000000     0        0 0 3 ffff9d5e
   5: 0100007F:9C44 0100007F:14C5 08 00000000:00000000 00:00000000 00000000     0        0 34569 1 ffff9d5e 20 4 30 10 -1
   6: 0100007F:9C45 0100007F:14C5 05 00000000:00000000 00:00000000 00000000  1001        0 34570 1 ffff9d5e 20 4 30 10 -1
   7: 0100007F:9C46 0100007F:14C5 04 00000000:00000000 00:00000000 00000000  1002        0 34571 1 ffff9d5e 20 4 30 10 -1
   8: 0100007F:9C47 0100007F:14C5 05 00000000:00000000 00:00000000 00000000     0        0 0 1 ffff9d5e 20 4 30 10 -1
   9: 0100007F:9C48 0100007F:14C5 02 00000000:00000000 00:00000000 00000000     0        0 34572 1 ffff9d5e 20 4 30 10 -1
10000: 0100007F:9C49 0100007F:14C5 01 00000000:00000000 00:00000000 00000000  1003        0 34573 1 ffff9d5e 20 4 30 10 -1
`;
const TCP6 = `${HEADER}
   0: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:14C5 01 00000000:00000000 00:00000000 00000000   107        0 45678 1 ffff9d5e 20 4 30 10 -1
   1: 00000000000000000000000001000000:9C41 00000000000000000000000001000000:14C5 01 00000000:00000000 00:00000000 00000000   108        0 45679 1 ffff9d5e 20 4 30 10 -1
   2: B80D0120000000000000000001000000:9C41 B80D0120000000000000000002000000:14C5 01 00000000:00000000 00:00000000 00000000   109        0 45680 1 ffff9d5e 20 4 30 10 -1
`;

const find = (text: string, from = peer, to = own) => uidsIn(text).get(rowKey(from, to) ?? '');

describe('the sockets in a table', () => {
  it("finds the peer's own row, not ours with the ends exchanged", () => {
    expect(find(TCP)).toBe(1000);
    expect(find(TCP, own, peer)).toBe(0);
  });

  it('finds those whose row has a large number', () => {
    expect(find(TCP, at('127.0.0.1', 0x9c49))).toBe(1003);
    expect(find(TCP, at('127.0.0.1', 1))).toBeUndefined();
  });

  it('accepts a peer that has closed only its sending half', () => {
    expect(find(TCP, at('127.0.0.1', 0x9c45))).toBe(1001);
    expect(find(TCP, at('127.0.0.1', 0x9c46))).toBe(1002);
  });

  it.each([
    ['TIME_WAIT', 0x9c42],
    ['without an inode', 0x9c43],
    ['CLOSE_WAIT', 0x9c44],
    ['FIN_WAIT2 without an inode, closed by its process', 0x9c47],
    ['SYN_SENT', 0x9c48],
  ])('ignores a row in %s', (_what, port) => {
    expect(find(TCP, at('127.0.0.1', port))).toBeUndefined();
  });

  it('needs both ends to match', () => {
    expect(find(TCP, peer, at('127.0.0.1', 5318))).toBeUndefined();
    expect(find(TCP, peer, at('127.0.0.2', 5317))).toBeUndefined();
    expect(find(TCP, at('127.0.0.1', 40001))).toBeUndefined();
  });

  it('reads IPv4 that is mapped into IPv6, on either side', () => {
    const mapped = [at('::ffff:127.0.0.1', 40000), at('::ffff:127.0.0.1', 5317)] as const;
    expect(find(TCP6)).toBe(107);
    expect(find(TCP6, ...mapped)).toBe(107);
    expect(find(TCP, ...mapped)).toBe(1000);
  });

  it('reads ::1, and no other IPv6 address as loopback', () => {
    expect(find(TCP6, at('::1', 0x9c41), at('::1', 0x14c5))).toBe(108);
    expect(find(TCP, at('::1', 0x9c40), at('::1', 0x14c5))).toBeUndefined();
    expect(find(TCP6, at('2001:db8::1', 0x9c41), at('2001:db8::2', 0x14c5))).toBeUndefined();
  });

  it('finds no row in text that is not a table', () => {
    for (const table of ['', HEADER, 'x', `${HEADER}\n\n  0: zz yy`]) expect(find(table)).toBeUndefined();
  });
});

describe('readTable', () => {
  it('gives the table of this machine, with its heading', async () => {
    expect(await readTable('/proc/net/tcp')).toMatch(/^ *sl +local_address/);
  });
});
