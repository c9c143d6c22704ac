import { once } from 'node:events';
import { chmod, mkdir, rename, rm, rmdir } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import type { OffersErrorCode } from '../busy.ts';
import { WIRE_SERVER_OPTIONS } from '../documents.ts';

export interface SocketServer {
  /** Drops every connection and removes the socket. */
  close(): Promise<void>;
}

/**
 * HTTP on a Unix socket for its owner only (mode 0600). The socket of an earlier run is replaced.
 *
 * @param path at most 101 bytes, since six more are needed for a moment (unix(7))
 * @throws AppError `offers/listen` (`retry`)
 */
export async function serveSocket(
  path: string,
  handle: (request: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<SocketServer> {
  const server = createServer(WIRE_SERVER_OPTIONS, (request, response) => void handle(request, response));
  const folder = `${path}.new`;
  try {
    // Nobody else can enter the folder or connect before the mode is set.
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const listening = once(server, 'listening');
    server.listen(join(folder, 's'));
    await listening;
    await chmod(join(folder, 's'), 0o600);
    await rename(join(folder, 's'), path);
    await rmdir(folder);
  } catch (cause) {
    server.close();
    throw listenError(path, cause);
  }
  return {
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
      await rm(path, { force: true });
    },
  };
}

function listenError(path: string, cause: unknown): AppError<OffersErrorCode> {
  return new AppError({
    code: 'offers/listen',
    message: `${path} can't be served: ${reasonOf(cause)}; other nodes get nothing from this one`,
    disposition: 'retry',
    cause,
  });
}
