import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DgramSocket } from 'node-unix-socket';

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

/** Binds a socket in a temporary directory. */
export function createDatagramReceiver(): DatagramReceiver {
  const directory = mkdtempSync(join(tmpdir(), 'stickpin-dgram-'));
  const path = join(directory, 'socket');
  const received: Buffer[] = [];
  let socket: DgramSocket | undefined;
  const close = (): void => {
    socket?.close();
    socket = undefined;
    rmSync(path, { force: true });
  };
  const reopen = (): void => {
    close();
    socket = new DgramSocket();
    socket.on('data', (datagram: Buffer) => received.push(datagram));
    socket.bind(path);
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
