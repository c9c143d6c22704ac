import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** The address at which others reach a port of this machine, as through a firewall. */
export interface Door {
  readonly port: number;
  /** From now on nobody gets through; connections break. */
  block(): void;
  close(): Promise<void>;
}

/** Opens a door to a port of 127.0.0.1, on a port of its own. */
export async function openDoor(to: number): Promise<Door> {
  const sockets = new Set<Socket>();
  let isBlocked = false;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };
  const server = createServer((outside) => {
    keep(outside);
    if (isBlocked) return void outside.destroy();
    const inside = keep(connect({ host: '127.0.0.1', port: to }));
    outside.pipe(inside).pipe(outside);
    outside.on('close', () => inside.destroy());
    inside.on('close', () => outside.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    block: () => {
      isBlocked = true;
      cut();
    },
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      cut();
      await closed;
    },
  };
}
