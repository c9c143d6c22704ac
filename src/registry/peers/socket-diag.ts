import { type DiagReply, diagReply, diagRequest } from './diag-message.ts';
import type { TcpEndpoint } from './tcp-table.ts';

/** Asks the kernel for the socket at the other end of a loopback connection. Never throws. */
export type FindPeer = (peer: TcpEndpoint, own: TcpEndpoint) => DiagReply;

// Linux, the same on x86-64 and arm64.
const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const NETLINK_SOCK_DIAG = 4;
const MSG_DONTWAIT = 0x40;
/** More than the longest answer about one socket. */
const REPLY_BYTES = 4 * 1024;

const UNKNOWN: DiagReply = { kind: 'unknown' };

/**
 * Opens a socket for questions about single connections (sock_diag(7)). The kernel finds one by its
 * hash, in some microseconds. To read its tables takes milliseconds, since they have a row for each
 * of some hundred thousand hashes, used or not.
 *
 * The module is loaded here, not on import. The socket stays open until the process ends.
 *
 * @returns undefined when the kernel or a sandbox has no such sockets, or the module can't be
 *   loaded
 */
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
  const buffer = Buffer.alloc(REPLY_BYTES);
  let sequence = 0;
  return (peer, own) => {
    sequence = (sequence + 1) % 2 ** 32;
    const request = diagRequest(sequence, peer, own);
    // The kernel answers within send().
    if (request === undefined || send(fd, request, request.length, MSG_DONTWAIT) !== request.length) return UNKNOWN;
    for (;;) {
      const length = Number(recv(fd, buffer, buffer.length, MSG_DONTWAIT));
      if (length <= 0) return UNKNOWN;
      const reply = buffer.subarray(0, length);
      // An answer that was not read in time may be left of an earlier question.
      if (length >= 12 && reply.readUInt32LE(8) === sequence) return diagReply(request, reply);
    }
  };
}
