import { constants } from 'node:os';
import type { Socket } from 'unix-dgram';

/** What became of a datagram: `queued` is sent as soon as the receiver takes more; `lost` found nobody, or the queue was full. */
type SendOutcome = 'sent' | 'queued' | 'too-large' | 'lost';

/** Sends datagrams to one Unix socket, in order. */
export interface DatagramSender {
  send(datagram: Buffer): SendOutcome;
  /** Closes the socket; what is still queued is lost. Idempotent. */
  close(): void;
}

/** Datagrams kept while the receiver is busy; more are lost. */
const MAX_QUEUED = 512;
const CONGESTION = 1;

/**
 * Makes a {@link DatagramSender} to the socket at `path`, a path in the filesystem: the native module has no abstract addresses. Nothing is
 * opened before the first datagram, and a receiver that went away is looked for again with the next one.
 *
 * The module is loaded here, not on import, so that a machine without systemd never needs it.
 */
export async function createDatagramSender(path: string): Promise<DatagramSender> {
  const { createSocket } = await import('unix-dgram');
  const queue: Buffer[] = [];
  let socket: Socket | undefined;

  const close = (): void => {
    socket?.close();
    socket = undefined;
  };
  const open = (): Socket | undefined => {
    const fresh = createSocket('unix_dgram');
    let failed = false;
    fresh.on('error', () => {
      failed = true;
    });
    fresh.on('writable', flush);
    fresh.connect(path);
    if (!failed) return fresh;
    fresh.close();
    return undefined;
  };
  const attempt = (datagram: Buffer): number => {
    socket ??= open();
    if (socket === undefined) return -constants.errno.ECONNREFUSED;
    let code = 0;
    socket.send(datagram, (error) => {
      code = error?.code ?? 0;
    });
    return code;
  };
  const sendNow = (datagram: Buffer): SendOutcome => {
    let code = attempt(datagram);
    if (code < 0 && code !== -constants.errno.EMSGSIZE) {
      close();
      code = attempt(datagram);
    }
    if (code === 0) return 'sent';
    if (code === CONGESTION) return 'queued';
    return code === -constants.errno.EMSGSIZE ? 'too-large' : 'lost';
  };
  function flush(): void {
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      if (sendNow(next) === 'queued') return;
      queue.shift();
    }
  }

  return {
    send: (datagram) => {
      const outcome = queue.length > 0 ? 'queued' : sendNow(datagram);
      if (outcome !== 'queued') return outcome;
      if (queue.length >= MAX_QUEUED) return 'lost';
      queue.push(datagram);
      return 'queued';
    },
    close: () => {
      queue.length = 0;
      close();
    },
  };
}
