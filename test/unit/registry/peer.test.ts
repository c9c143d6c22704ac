import { describe, expect, it } from 'vitest';
import { uidInTable, wholeLines } from '../../../src/registry/peer.ts';

const HEADER =
  '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     ';
const at = (address: string, port: number) => ({ address, port });
const peer = at('127.0.0.1', 40000);
const own = at('127.0.0.1', 5317);

/** Rows as Linux 6.12 writes them: our listener, the peer's end, our end, one in TIME_WAIT, one without inode, one half-closed. */
const TCP = `${HEADER}
   0: 0100007F:14C5 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 23456 1 ffff9d5e 100 0 0 10 0
   1: 0100007F:9C40 0100007F:14C5 01 00000000:00000000 00:00000000 00000000  1000        0 34567 1 ffff9d5e 20 4 30 10 -1
   2: 0100007F:14C5 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 34568 1 ffff9d5e 20 4 30 10 -1
   3: 0100007F:9C42 0100007F:14C5 06 00000000:00000000 03:000004E2 00000000     0        0 0 3 ffff9d5e
   4: 0100007F:9C43 0100007F:14C5 01 00000000:00000000 00:00000000 00000000     0        0 0 3 ffff9d5e
   5: 0100007F:9C44 0100007F:14C5 08 00000000:00000000 00:00000000 00000000     0        0 34569 1 ffff9d5e 20 4 30 10 -1
`;
const TCP6 = `${HEADER}
   0: 0000000000000000FFFF00000100007F:9C40 0000000000000000FFFF00000100007F:14C5 01 00000000:00000000 00:00000000 00000000   107        0 45678 1 ffff9d5e 20 4 30 10 -1
   1: 00000000000000000000000001000000:9C41 00000000000000000000000001000000:14C5 01 00000000:00000000 00:00000000 00000000   108        0 45679 1 ffff9d5e 20 4 30 10 -1
   2: B80D0120000000000000000001000000:9C41 B80D0120000000000000000002000000:14C5 01 00000000:00000000 00:00000000 00000000   109        0 45680 1 ffff9d5e 20 4 30 10 -1
`;
const uid = (table: string, from = peer, to = own, order: 'LE' | 'BE' = 'LE') => uidInTable(table, from, to, order);

describe('uidInTable', () => {
  it("finds the peer's own row, not ours with the ends exchanged", () => {
    expect(uid(TCP)).toBe(1000);
    expect(uid(TCP, own, peer)).toBe(0);
  });

  it('takes no row without an inode, and none that is not established', () => {
    expect(uid(TCP, at('127.0.0.1', 0x9c42))).toBeUndefined();
    expect(uid(TCP, at('127.0.0.1', 0x9c43))).toBeUndefined();
    expect(uid(TCP, at('127.0.0.1', 0x9c44))).toBeUndefined();
    expect(uid(TCP, at('0.0.0.0', 0), own)).toBeUndefined();
  });

  it('needs both ends to match', () => {
    expect(uid(TCP, peer, at('127.0.0.1', 5318))).toBeUndefined();
    expect(uid(TCP, peer, at('127.0.0.2', 5317))).toBeUndefined();
    expect(uid(TCP, at('127.0.0.1', 40001))).toBeUndefined();
  });

  it('reads IPv4 that is mapped into IPv6, on either side', () => {
    expect(uid(TCP6)).toBe(107);
    expect(uid(TCP6, at('::ffff:127.0.0.1', 40000), at('::ffff:127.0.0.1', 5317))).toBe(107);
    expect(uid(TCP, at('::ffff:127.0.0.1', 40000), at('::ffff:127.0.0.1', 5317))).toBe(1000);
  });

  it('reads ::1 and takes no other IPv6 address for it', () => {
    expect(uid(TCP6, at('::1', 0x9c41), at('::1', 0x14c5))).toBe(108);
    expect(uid(TCP6, at('2001:db8::1', 0x9c41), at('2001:db8::2', 0x14c5))).toBeUndefined();
  });

  it('reads the addresses as a big-endian kernel writes them', () => {
    const s390x = TCP.replaceAll('0100007F', '7F000001');
    expect(uid(s390x, peer, own, 'BE')).toBe(1000);
    expect(uid(s390x, peer, own, 'LE')).toBeUndefined();
    const mapped = TCP6.replaceAll('0000000000000000FFFF00000100007F', '00000000000000000000FFFF7F000001');
    expect(uid(mapped, peer, own, 'BE')).toBe(107);
  });

  it('finds nothing in what is no table', () => {
    for (const table of ['', HEADER, 'x', `${HEADER}\n\n  0: zz yy`]) expect(uid(table)).toBeUndefined();
  });
});

describe('wholeLines', () => {
  it('joins a line that is cut at any place, and gives each once', () => {
    for (let cut = 0; cut <= TCP.length; cut += 1) {
      const lines = [...wholeLines([TCP.slice(0, cut), TCP.slice(cut)])];
      expect(lines.join('')).toBe(TCP);
      expect(lines.map((some) => uid(some)).filter((found) => found !== undefined)).toEqual([1000]);
    }
  });

  it('leaves out a last line that is not ended', () => {
    expect([...wholeLines(['a\nb', 'c\nd'])]).toEqual(['a\n', 'bc\n']);
  });
});
