import type { DgramSocket } from 'node-unix-socket';

/**
 * What became of a datagram. `queued`: the receiver is busy, it is sent as soon as the receiver
 * takes more. `too-large`: the kernel does not take so many bytes at once. `lost`: nobody received
 * it.
 */
type SendOutcome = 'sent' | 'queued' | 'too-large' | 'lost';

/** Sends datagrams to one Unix socket, in order. */
export interface DatagramSender {
  send(datagram: Buffer): SendOutcome;
  /** Closes the socket. What is still queued is lost. Idempotent. */
  close(): void;
}

/** Datagrams kept while the receiver is busy; more are lost. */
const MAX_QUEUED = 512;

/**
 * Of the send buffer the kernel keeps so many bytes for itself: net/unix/af_unix.c,
 * `unix_dgram_sendmsg`.
 */
const SEND_BUFFER_RESERVE_BYTES = 32;

/**
 * Makes a {@link DatagramSender} to the socket at `path`, a path in the filesystem: the native
 * module has no abstract addresses. Nothing is opened before the first datagram. The path is looked
 * up for each datagram, so a receiver that started again is found.
 *
 * The module is loaded here, not on import, so that a machine without systemd never needs it.
 */
export async function createDatagramSender(path: string): Promise<DatagramSender> {
  const { DgramSocket: Socket } = await import('node-unix-socket');
  let current: Connection | undefined;

  const open = (): Connection => {
    const fresh: Connection = { socket: new Socket(), queued: 0 };
    // It closes itself after an error; the next datagram opens another one.
    fresh.socket.on('error', () => {
      if (current === fresh) current = undefined;
    });
    return fresh;
  };

  return {
    send: (datagram) => {
      try {
        current ??= open();
        return sendOn(current, datagram, path);
      } catch {
        return 'lost';
      }
    },
    close: () => {
      current?.socket.close();
      current = undefined;
    },
  };
}

/** An open socket, and how many datagrams wait in it for a busy receiver. */
interface Connection {
  readonly socket: DgramSocket;
  queued: number;
}

function sendOn(connection: Connection, datagram: Buffer, path: string): SendOutcome {
  if (connection.queued >= MAX_QUEUED) return 'lost';
  const limitBytes = connection.socket.getSendBufferSize() - SEND_BUFFER_RESERVE_BYTES;
  let outcome: SendOutcome | undefined;
  let isWaiting = false;
  // The module calls back before it returns, unless the receiver is busy.
  connection.socket.sendTo(datagram, 0, datagram.length, path, (error) => {
    if (isWaiting) connection.queued -= 1;
    if (error === undefined || error === null) outcome = 'sent';
    else outcome = datagram.length > limitBytes ? 'too-large' : 'lost';
  });
  if (outcome !== undefined) return outcome;
  isWaiting = true;
  connection.queued += 1;
  return 'queued';
}
