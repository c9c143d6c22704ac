/**
 * What became of a datagram. `busy`: the receiver's queue is full. `failed`: there is no receiver.
 */
export type SendResult = 'sent' | 'busy' | 'too-large' | 'failed';

/** A socket for Unix datagrams that never blocks. */
export interface DatagramSocket {
  /** Sends to the socket file at `path`, which is resolved each time. */
  send(datagram: Buffer, path: string): SendResult;
  /** Idempotent. */
  close(): void;
}

// Linux, the same on x86-64 and arm64 (asm-generic/socket.h, asm-generic/fcntl.h).
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const MSG_NOSIGNAL = 0x4000;

/** `sun_path` holds so many bytes, with a zero byte at the end (unix(7)). */
const PATH_BYTES = 108;

/**
 * Opens sockets with the C library's own functions (socket(2), sendto(2)): Node.js has no Unix
 * datagrams (docs/runtime-facts.md, fact 27).
 *
 * The module is loaded here, not on import, so that a machine without systemd never needs it.
 */
export async function loadDatagramSockets(): Promise<() => DatagramSocket> {
  const { default: koffi } = await import('koffi');
  const libc = koffi.load(null);
  const socket = libc.func('int socket(int, int, int)');
  const close = libc.func('int close(int)');
  const sendto = libc.func('intptr_t sendto(int, const void *, size_t, int, const void *, uint32_t)');
  const { EAGAIN, EMSGSIZE } = koffi.os.errno;

  return () => {
    let fd: number = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return {
      send: (datagram, path) => {
        const address = addressOf(path);
        if (fd < 0 || address === undefined) return 'failed';
        if (sendto(fd, datagram, datagram.length, MSG_NOSIGNAL, address, address.length) >= 0) return 'sent';
        const error = koffi.errno();
        if (error === EAGAIN) return 'busy';
        return error === EMSGSIZE ? 'too-large' : 'failed';
      },
      close: () => {
        if (fd >= 0) close(fd);
        fd = -1;
      },
    };
  };
}

/** `struct sockaddr_un` (unix(7)); undefined when the path does not fit. */
function addressOf(path: string): Buffer | undefined {
  const name = Buffer.from(`${path}\0`);
  if (name.length > PATH_BYTES) return undefined;
  const family = Buffer.alloc(2);
  // Both architectures are little-endian.
  family.writeUInt16LE(AF_UNIX);
  return Buffer.concat([family, name]);
}
