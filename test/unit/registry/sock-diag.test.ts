import { describe, expect, it } from 'vitest';
import { diagReply, diagRequest } from '../../../src/registry/sock-diag.ts';

const PEER = { address: '127.0.0.1', port: 40_000 };
const OWN = { address: '127.0.0.1', port: 5_317 };
const request = (sequence = 7) => diagRequest(sequence, PEER, OWN) ?? Buffer.alloc(0);

interface Fields {
  readonly state?: number;
  readonly uid?: number;
  readonly inode?: number;
  readonly sequence?: number;
  readonly change?: (id: Buffer) => void;
}
/** An `inet_diag_msg` about the connection of {@link request}. */
function reply({ state = 1, uid = 0, inode = 77, sequence = 7, change = () => undefined }: Fields = {}): Buffer {
  const message = Buffer.alloc(16 + 72);
  message.writeUInt32LE(message.length, 0);
  message.writeUInt16LE(20, 4);
  message.writeUInt32LE(sequence, 8);
  message[16] = 2;
  message[17] = state;
  request().copy(message, 20, 24, 24 + 36);
  change(message.subarray(20, 20 + 48));
  message.writeUInt32LE(uid, 80);
  message.writeUInt32LE(inode, 84);
  return message;
}
function failure(errno: number): Buffer {
  const message = Buffer.alloc(36);
  message.writeUInt16LE(2, 4);
  message.writeUInt32LE(7, 8);
  message.writeInt32LE(-errno, 16);
  return message;
}

describe('diagRequest', () => {
  it("requests the peer's socket: its own end is local, and ports are in network order", () => {
    const message = request();
    expect(message).toHaveLength(72);
    expect([message[16], message[17]]).toEqual([2, 6]);
    expect(message.subarray(24, 28)).toEqual(Buffer.from([0x9c, 0x40, 0x14, 0xc5]));
    expect([message.readUInt32BE(28), message.readUInt32BE(44)]).toEqual([0x7f000001, 0x7f000001]);
  });

  it('takes IPv4 addresses that are mapped into IPv6, and ::1', () => {
    const mapped = { ...PEER, address: '::ffff:127.0.0.1' };
    expect(diagRequest(7, mapped, { ...OWN, address: '::ffff:127.0.0.1' })).toEqual(request());
    expect(diagRequest(7, { ...PEER, address: '::1' }, { ...OWN, address: '::1' })?.[16]).toBe(10);
  });

  it.each(['fe80::1', '::2', '127.0.0', 'localhost', ''])('requests nothing for the address %j', (address) => {
    expect(diagRequest(7, { ...PEER, address }, { ...OWN, address })).toBeUndefined();
  });

  it('requests nothing for ends of two families', () => {
    expect(diagRequest(7, PEER, { ...OWN, address: '::1' })).toBeUndefined();
  });
});

describe('diagReply', () => {
  it.each([1, 4, 5])('has the uid of a socket in state %d', (state) => {
    expect(diagReply(request(), reply({ state, uid: 1_000 }))).toEqual({ kind: 'found', uid: 1_000 });
  });

  it('has the uid of a socket of IPv6 with the mapped addresses', () => {
    const change = (id: Buffer) => {
      for (const at of [4, 20]) id.set([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1], at);
    };
    expect(diagReply(request(), reply({ change }))).toEqual({ kind: 'found', uid: 0 });
  });

  it.each<[string, Buffer]>([
    ['a socket that only listens on the port', reply({ state: 10 })],
    ['one in TIME_WAIT', reply({ state: 6 })],
    ['one that no process has', reply({ inode: 0 })],
    ['another connection', reply({ change: (id) => void id.writeUInt16BE(1, 2) })],
    ['another address', reply({ change: (id) => id.set([2], 7) })],
    ['no socket', failure(2)],
  ])('is absent for %s', (_what, message) => {
    expect(diagReply(request(), message)).toEqual({ kind: 'absent' });
  });

  it.each<[string, Buffer]>([
    ['another question', reply({ sequence: 6 })],
    ['a kernel that refuses', failure(95)],
    ['a cut message', reply().subarray(0, 60)],
    ['an empty message', Buffer.alloc(0)],
    ['another type', Buffer.concat([request()])],
  ])('is not known for %s', (what, message) => {
    if (what === 'another type') message.writeUInt16LE(3, 4);
    expect(diagReply(request(), message)).toEqual({ kind: 'unknown' });
  });
});
