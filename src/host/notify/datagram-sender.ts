import { type DatagramSocket, loadDatagramSockets } from './unix-datagrams.ts';

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

/** Pauses between two tries with a busy receiver. The kernel does not tell when it is ready. */
const FIRST_PAUSE_MS = 2;
const LONGEST_PAUSE_MS = 100;

/**
 * Makes a {@link DatagramSender} to the socket file at `path`; abstract addresses are not
 * supported. The socket is opened with the first datagram. The path is resolved for each datagram,
 * so a restarted receiver is found.
 */
export async function createDatagramSender(path: string): Promise<DatagramSender> {
  const outbox: Outbox = { path, open: await loadDatagramSockets(), queue: [] };
  return {
    send: (datagram) => {
      if (outbox.queue.length === 0) {
        const result = sendNow(outbox, datagram);
        if (result !== 'busy') return result === 'failed' ? 'lost' : result;
      }
      if (outbox.queue.length >= MAX_QUEUED) return 'lost';
      outbox.queue.push(datagram);
      if (outbox.timer === undefined) retryAfter(outbox, FIRST_PAUSE_MS);
      return 'queued';
    },
    close: () => {
      clearTimeout(outbox.timer);
      outbox.timer = undefined;
      outbox.queue.length = 0;
      outbox.socket?.close();
      outbox.socket = undefined;
    },
  };
}

/** An address, and what waits for its receiver. A timer runs while something does. */
interface Outbox {
  readonly path: string;
  readonly open: () => DatagramSocket;
  readonly queue: Buffer[];
  socket?: DatagramSocket | undefined;
  timer?: NodeJS.Timeout | undefined;
}

function sendNow(outbox: Outbox, datagram: Buffer): ReturnType<DatagramSocket['send']> {
  outbox.socket ??= outbox.open();
  return outbox.socket.send(datagram, outbox.path);
}

function retryAfter(outbox: Outbox, pauseMs: number): void {
  outbox.timer = setTimeout(() => {
    outbox.timer = undefined;
    let hasSent = false;
    for (let [first] = outbox.queue; first !== undefined; [first] = outbox.queue) {
      if (sendNow(outbox, first) === 'busy') break;
      outbox.queue.shift();
      hasSent = true;
    }
    if (outbox.queue.length > 0) retryAfter(outbox, hasSent ? FIRST_PAUSE_MS : Math.min(pauseMs * 2, LONGEST_PAUSE_MS));
  }, pauseMs);
}
