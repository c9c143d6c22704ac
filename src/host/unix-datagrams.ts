/**
 * `queued`: the receiver is busy, and the datagram is sent as soon as possible. `too-large` for one
 * datagram. `lost`: there is no receiver or the queue is full.
 */
type SendOutcome = 'sent' | 'queued' | 'too-large' | 'lost';

/** The limit while the receiver is busy; more datagrams are lost. */
const MAX_QUEUED = 512;

/** The pause between two tries. The kernel does not report when a busy receiver is ready. */
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 100;

// The same on x86-64 and arm64 (asm-generic/socket.h, asm-generic/fcntl.h).
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const MSG_NOSIGNAL = 0x4000;

/** `sun_path`, with a zero byte at the end (unix(7)). */
const PATH_BYTES = 108;

/**
 * Loads functions of the C library (socket(2), sendto(2)): Node.js has no Unix datagrams
 * (docs/runtime-facts.md, fact 27). The module is loaded with the first sender, so that a machine
 * without systemd never needs it.
 */
async function loadLibrary() {
  const { default: koffi } = await import('koffi');
  const libc = koffi.load(null);
  const sendto = libc.func('intptr_t sendto(int, const void *, size_t, int, const void *, uint32_t)');
  const { EAGAIN, EMSGSIZE } = koffi.os.errno;
  return {
    socket: libc.func('int socket(int, int, int)'),
    close: libc.func('int close(int)'),
    send: (fd: number, datagram: Buffer, address: Buffer): Exclude<SendOutcome, 'queued'> | 'busy' => {
      if (sendto(fd, datagram, datagram.length, MSG_NOSIGNAL, address, address.length) >= 0) return 'sent';
      const error = koffi.errno();
      if (error === EAGAIN) return 'busy';
      return error === EMSGSIZE ? 'too-large' : 'lost';
    },
  };
}

/**
 * Abstract addresses are not supported. The socket is opened with the first datagram. The path is
 * resolved for each datagram, so a restarted receiver is found.
 */
export async function createDatagramSender(path: string): Promise<DatagramSender> {
  return new DatagramSender(addressOf(path), await loadLibrary());
}

/** Sends in order, and never blocks. */
export class DatagramSender {
  /** It is undefined when the path does not fit into an address. */
  private readonly address: Buffer | undefined;
  private readonly queue: Buffer[] = [];
  private fd: number | undefined;
  /** Runs while datagrams wait for the receiver. */
  private timer: NodeJS.Timeout | undefined;

  constructor(
    address: Buffer | undefined,
    private readonly library: Awaited<ReturnType<typeof loadLibrary>>,
  ) {
    this.address = address;
  }

  send(datagram: Buffer): SendOutcome {
    if (this.queue.length === 0) {
      const result = this.sendNow(datagram);
      if (result !== 'busy') return result;
    }
    if (this.queue.length >= MAX_QUEUED) return 'lost';
    this.queue.push(datagram);
    if (this.timer === undefined) this.retryAfter(FIRST_PAUSE_MS);
    return 'queued';
  }

  /** Queued datagrams are lost. Idempotent. */
  close(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.queue.length = 0;
    if (this.fd !== undefined && this.fd >= 0) this.library.close(this.fd);
    this.fd = undefined;
  }

  private sendNow(datagram: Buffer): ReturnType<typeof this.library.send> {
    this.fd ??= this.library.socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) as number;
    if (this.fd < 0 || this.address === undefined) return 'lost';
    return this.library.send(this.fd, datagram, this.address);
  }

  private retryAfter(pauseMs: number): void {
    this.timer = setTimeout(() => {
      this.timer = undefined;
      let hasSent = false;
      for (let [first] = this.queue; first !== undefined; [first] = this.queue) {
        if (this.sendNow(first) === 'busy') break;
        this.queue.shift();
        hasSent = true;
      }
      if (this.queue.length > 0) this.retryAfter(hasSent ? FIRST_PAUSE_MS : Math.min(pauseMs * 2, LONGEST_PAUSE_MS));
    }, pauseMs);
  }
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
