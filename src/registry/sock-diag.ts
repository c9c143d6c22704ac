import { isIPv4 } from 'node:net';
import { OPEN_STATES, type TcpEndpoint } from './tcp-table.ts';

export type DiagReply =
  | { readonly kind: 'found'; readonly uid: number }
  /** No process has the socket any more, or there is none. */
  | { readonly kind: 'absent' }
  /** No reply to the request, or the kernel can't answer. */
  | { readonly kind: 'unknown' };

// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h. Numbers are in the byte order of the
// machine, little-endian; ports in that of the network.
const SOCK_DIAG_BY_FAMILY = 20;
const NLMSG_ERROR = 2;
const NLM_F_REQUEST = 1;
const IPPROTO_TCP = 6;
const [AF_INET, AF_INET6] = [2, 10];
const ENOENT = 2;
/** The loopback interface is always the first. A socket may be bound to it. */
const LOOPBACK = 1;

/** In bytes. The message begins with `nlmsghdr`. */
const HEADER = 16;
/** `inet_diag_sockid` in `inet_diag_req_v2`, and in `inet_diag_msg`. */
const [ID_IN_REQUEST, ID_IN_REPLY] = [HEADER + 8, HEADER + 4];
const REQUEST_BYTES = HEADER + 56;
const REPLY_BYTES = HEADER + 72;
/** Both ports and both addresses, as `inet_diag_sockid` begins. */
const ENDS_BYTES = 36;
const COOKIE_AT = 40;
const COOKIE_BYTES = 8;
const [UID_AT, INODE_AT] = [HEADER + 64, HEADER + 68];

/** For the other end of a loopback connection. Undefined for other addresses. */
export function diagRequest(sequence: number, peer: TcpEndpoint, ownEnd: TcpEndpoint): Buffer | undefined {
  const [local, remote] = [addressOf(peer), addressOf(ownEnd)];
  if (local === undefined || remote === undefined || local.family !== remote.family) return undefined;
  const message = Buffer.alloc(REQUEST_BYTES);
  message.writeUInt32LE(REQUEST_BYTES, 0);
  message.writeUInt16LE(SOCK_DIAG_BY_FAMILY, 4);
  message.writeUInt16LE(NLM_F_REQUEST, 6);
  message.writeUInt32LE(sequence, 8);
  message[HEADER] = local.family;
  message[HEADER + 1] = IPPROTO_TCP;
  message.writeUInt32LE(0xffff_ffff, HEADER + 4); // all states
  message.writeUInt16BE(peer.port, ID_IN_REQUEST);
  message.writeUInt16BE(ownEnd.port, ID_IN_REQUEST + 2);
  message.set(local.bytes, ID_IN_REQUEST + 4);
  message.set(remote.bytes, ID_IN_REQUEST + 20);
  message.writeUInt32LE(LOOPBACK, ID_IN_REQUEST + ENDS_BYTES);
  message.fill(0xff, ID_IN_REQUEST + COOKIE_AT, ID_IN_REQUEST + COOKIE_AT + COOKIE_BYTES); // any cookie
  return message;
}

export function diagReply(request: Buffer, reply: Buffer): DiagReply {
  if (reply.length < HEADER + 4 || reply.readUInt32LE(8) !== request.readUInt32LE(8)) return { kind: 'unknown' };
  const type = reply.readUInt16LE(4);
  if (type === NLMSG_ERROR) return { kind: reply.readInt32LE(HEADER) === -ENOENT ? 'absent' : 'unknown' };
  if (type !== SOCK_DIAG_BY_FAMILY || reply.length < REPLY_BYTES) return { kind: 'unknown' };
  const wanted = request.subarray(ID_IN_REQUEST, ID_IN_REQUEST + ENDS_BYTES);
  // The kernel also finds a socket that only listens on the port.
  const isOpen = OPEN_STATES.has(reply[HEADER + 1] ?? 0) && reply.readUInt32LE(INODE_AT) !== 0;
  if (!isOpen || !isSameEnds(wanted, reply.subarray(ID_IN_REPLY, ID_IN_REPLY + ENDS_BYTES))) return { kind: 'absent' };
  return { kind: 'found', uid: reply.readUInt32LE(UID_AT) };
}

/** An IPv6 socket may have an IPv4 connection, with mapped addresses. */
function isSameEnds(wanted: Buffer, reply: Buffer): boolean {
  if (wanted.equals(reply)) return true;
  const mapped = Buffer.from(wanted);
  for (const at of [4, 20]) {
    wanted.copy(mapped, at + 12, at, at + 4);
    mapped.fill(0, at, at + 10);
    mapped.fill(0xff, at + 10, at + 12);
  }
  return mapped.equals(reply);
}

interface Address {
  readonly family: number;
  readonly bytes: Buffer;
}

/** The only native IPv6 address is loopback: no other one is admitted. */
function addressOf({ address }: TcpEndpoint): Address | undefined {
  if (address === '::1') return { family: AF_INET6, bytes: Buffer.from([...Array<number>(15).fill(0), 1]) };
  const text = address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address;
  if (!isIPv4(text)) return undefined;
  return { family: AF_INET, bytes: Buffer.from(text.split('.').map(Number)) };
}

/** Never throws. */
export type FindPeer = (peer: TcpEndpoint, ownEnd: TcpEndpoint) => DiagReply;

// Linux, the same on x86-64 and arm64.
const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const NETLINK_SOCK_DIAG = 4;
const MSG_DONTWAIT = 0x40;
/** Larger than any answer about one socket. */
const BUFFER_BYTES = 4 * 1024;

const UNKNOWN: DiagReply = { kind: 'unknown' };

/** sock_diag(7), open until the process ends. Undefined without such sockets or the module. */
export async function openSocketDiag(): Promise<FindPeer | undefined> {
  const koffi = await import('koffi').then(
    (module) => module.default,
    () => undefined,
  );
  if (koffi === undefined) return undefined;
  const libc = koffi.load(null);
  const socket = libc.func('int socket(int, int, int)');
  const send = libc.func('intptr_t send(int, const void *, size_t, int)');
  const recv = libc.func('intptr_t recv(int, _Out_ uint8_t *, size_t, int)');
  const fd: number = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  if (fd < 0) return undefined;
  const buffer = Buffer.alloc(BUFFER_BYTES);
  let sequence = 0;
  return (peer, ownEnd) => {
    sequence = (sequence + 1) % 2 ** 32;
    const request = diagRequest(sequence, peer, ownEnd);
    // The kernel answers within send().
    if (request === undefined || send(fd, request, request.length, MSG_DONTWAIT) !== request.length) return UNKNOWN;
    for (;;) {
      const length = Number(recv(fd, buffer, buffer.length, MSG_DONTWAIT));
      if (length <= 0) return UNKNOWN;
      const reply = buffer.subarray(0, length);
      // An earlier answer may have come too late.
      if (length >= 12 && reply.readUInt32LE(8) === sequence) return diagReply(request, reply);
    }
  };
}
