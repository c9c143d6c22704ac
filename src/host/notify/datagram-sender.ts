import type { DgramSocket } from 'node-unix-socket';

/**
 * The result of a send. `queued`: the receiver is busy, and the datagram is sent as soon as
 * possible. `too-large`: too many bytes for one datagram. `lost`: there is no receiver or the queue
 * is full.
 */
type SendOutcome = 'sent' | 'queued' | 'too-large' | 'lost';

/** Sends datagrams to one Unix socket, in order. */
export interface DatagramSender {
  send(datagram: Buffer): SendOutcome;
  /** Closes the socket. What is still queued is lost. Idempotent. */
  close(): void;
}

/** Maximum number of queued datagrams while the receiver is busy. More are lost. */
const MAX_QUEUED = 512;

/** Bytes of the send buffer that the kernel reserves (net/unix/af_unix.c, `unix_dgram_sendmsg`). */
const SEND_BUFFER_RESERVE_BYTES = 32;

/**
 * Makes a {@link DatagramSender} to the socket file at `path`; the native module does not support
 * abstract addresses. The socket is opened with the first datagram. The path is resolved for each
 * datagram, so a restarted receiver is found.
 *
 * The module is loaded here, not on import, so that a machine without systemd never needs it.
 */
export async function createDatagramSender(path: string): Promise<DatagramSender> {
  const { DgramSocket: Socket } = await import('node-unix-socket');
  let current: Connection | undefined;

  const open = (): Connection => {
    const fresh: Connection = { socket: new Socket(), queued: 0 };
    // The socket closes itself after an error. The next datagram opens another one.
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
