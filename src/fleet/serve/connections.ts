import type { Socket } from 'node:net';
import { wireLimits } from '../../offers/limits.ts';

/** Limits of connections to the port that other nodes reach. */
const MOST_HANDSHAKES = 64;
const MOST_HANDSHAKES_OF_ADDRESS = 8;
const MOST_KNOWN = 512;

/** Counts connections, and closes those that are too many. */
export interface Connections {
  /** A connection whose other end is not known yet. Closed when there are too many of them. */
  begin(socket: Socket): boolean;
  /** The other end is known. Closed when the node, or all nodes, have too many. */
  admit(raw: Socket, node: string): boolean;
  count(): number;
  closeAll(): void;
}

/** Makes a {@link Connections} without any. */
export function createConnections(): Connections {
  const unknown = new Map<Socket, string>();
  const known = new Map<Socket, string>();
  const countOf = (map: ReadonlyMap<Socket, string>, key: string) =>
    [...map.values()].filter((one) => one === key).length;
  return {
    begin: (socket) => {
      const address = socket.remoteAddress ?? '';
      const isTooMany = unknown.size >= MOST_HANDSHAKES || countOf(unknown, address) >= MOST_HANDSHAKES_OF_ADDRESS;
      if (isTooMany) {
        socket.resetAndDestroy();
        return false;
      }
      unknown.set(socket, address);
      socket.once('close', () => {
        unknown.delete(socket);
        known.delete(socket);
      });
      return true;
    },
    admit: (socket, node) => {
      unknown.delete(socket);
      if (socket.destroyed) return false;
      if (known.size >= MOST_KNOWN || countOf(known, node) >= wireLimits.ofNode) {
        socket.destroy();
        return false;
      }
      known.set(socket, node);
      return true;
    },
    count: () => known.size,
    closeAll: () => {
      for (const socket of [...unknown.keys(), ...known.keys()]) socket.destroy();
    },
  };
}
