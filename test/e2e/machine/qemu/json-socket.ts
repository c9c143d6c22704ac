import { createServer, type Socket } from 'node:net';

/** A Unix socket that speaks one JSON value a line, with the other end already connected. */
export interface JsonSocket {
  send(value: unknown, prefix?: Buffer): void;
  /** Called with each value received, in order. */
  onValue(listener: (value: Record<string, unknown>) => void): void;
  /** Called once, when the other end is gone. */
  onClose(listener: () => void): void;
  close(): void;
}

/** A socket that listens; `connected` resolves with the first peer, and nobody else is let in. */
export interface ListeningSocket {
  readonly connected: Promise<JsonSocket>;
  close(): void;
}

/**
 * Listens on a Unix socket for QEMU to connect to. That way round there is nothing to wait or poll
 * for.
 */
export async function listenForJson(path: string): Promise<ListeningSocket> {
  const server = createServer();
  const connected = new Promise<JsonSocket>((resolve) => {
    server.once('connection', (socket) => {
      server.close();
      resolve(jsonSocket(socket));
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
  return { connected, close: () => server.close() };
}

function jsonSocket(socket: Socket): JsonSocket {
  const valueListeners: ((value: Record<string, unknown>) => void)[] = [];
  const pieces: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => {
    let rest = chunk;
    for (let end = rest.indexOf(0x0a); end >= 0; end = rest.indexOf(0x0a)) {
      const value = parsed(Buffer.concat([...pieces.splice(0), rest.subarray(0, end)]));
      if (value !== undefined) for (const listener of valueListeners) listener(value);
      rest = rest.subarray(end + 1);
    }
    if (rest.length > 0) pieces.push(rest);
  });
  socket.on('error', () => undefined); // 'close' follows and is what counts
  return {
    send: (value, prefix = Buffer.alloc(0)) => {
      socket.write(Buffer.concat([prefix, Buffer.from(`${JSON.stringify(value)}\n`)]));
    },
    onValue: (listener) => valueListeners.push(listener),
    onClose: (listener) => socket.once('close', listener),
    close: () => socket.destroy(),
  };
}

/**
 * Text before a 0xFF byte is the remainder of an agent that was reset in mid-word
 * (guest-sync-delimited of the QEMU guest agent).
 */
function parsed(line: Buffer): Record<string, unknown> | undefined {
  const text = line.subarray(line.lastIndexOf(0xff) + 1).toString();
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined;
  }
}
