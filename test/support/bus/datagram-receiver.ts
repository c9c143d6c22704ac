import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import koffi from 'koffi';

/** A Unix datagram socket that keeps what it receives. */
export interface DatagramReceiver {
  readonly path: string;
  readonly received: readonly Buffer[];
  /** Closes the socket and removes it, as a service that stops. */
  close(): void;
  /** Opens a new socket at the same path, as a service that starts again. */
  reopen(): void;
  [Symbol.dispose](): void;
}

/** Node.js has no Unix datagrams, and does not report when one has come. */
const LOOK_EVERY_MS = 5;
const LONGEST_BYTES = 256 * 1024;
const AF_UNIX = 1;
const SOCK_DGRAM = 2;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;

const libc = koffi.load(null);
const openSocket = libc.func('int socket(int, int, int)');
const bindSocket = libc.func('int bind(int, const void *, uint32_t)');
const receive = libc.func('intptr_t recv(int, _Out_ uint8_t *, size_t, int)');
const closeSocket = libc.func('int close(int)');

/** Binds a socket in a temporary directory. */
export function createDatagramReceiver(): DatagramReceiver {
  const directory = mkdtempSync(join(tmpdir(), 'stickpin-dgram-'));
  const path = join(directory, 'socket');
  const address = Buffer.concat([Buffer.from([AF_UNIX, 0]), Buffer.from(`${path}\0`)]);
  const received: Buffer[] = [];
  const buffer = Buffer.alloc(LONGEST_BYTES);
  let fd = -1;
  let timer: NodeJS.Timeout | undefined;
  const take = (): void => {
    for (;;) {
      const length = Number(receive(fd, buffer, buffer.length, 0));
      if (length < 0) return;
      received.push(Buffer.from(buffer.subarray(0, length)));
    }
  };
  const close = (): void => {
    clearInterval(timer);
    if (fd >= 0) closeSocket(fd);
    fd = -1;
    rmSync(path, { force: true });
  };
  const reopen = (): void => {
    close();
    fd = openSocket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) as number;
    if (bindSocket(fd, address, address.length) !== 0) throw new Error(`bind(2) fails with error ${koffi.errno()}`);
    timer = setInterval(take, LOOK_EVERY_MS);
  };
  reopen();
  return {
    path,
    received,
    close,
    reopen,
    [Symbol.dispose]: () => {
      close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
