import { connect, type Socket } from 'node:net';
import { marshallMessage } from 'dbus-next/lib/marshall-compat.js';
import { marshall } from 'dbus-next/lib/message.js';
import type { Message } from 'dbus-next/lib/message-type.js';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { BusProtocolError, createFrameReader, type MessageSink } from './frames.ts';

/** The events of a connection. */
export interface ConnectionEvents extends MessageSink {
  /** Called once when the connection has ended, for any reason. */
  onEnd(reason: string): void;
}

/** A connection to a bus, during or after its authentication. */
export interface BusConnection {
  /**
   * Sends a message. It is queued until the authentication is complete.
   *
   * @param body the bytes of its body. Default: the body of `message` is written
   * @throws Error when the body of `message` does not fit its signature
   */
  send(message: Message, body?: Buffer): void;
  close(): void;
}

/** The longest line of a bus during the authentication. */
const LINE_MAX_BYTES = 1024;
/** Size of the one read buffer, which is used again for messages of any length. */
const READ_BYTES = 64 * 1024;
/**
 * While this much waits to be sent, nothing is read. So a client that sends calls without reading
 * the answers has to wait.
 */
const UNSENT_MAX_BYTES = 1024 * 1024;

/**
 * Connects to the bus at `address` (D-Bus specification, "Server Addresses"; the first one,
 * `unix:path=` or `unix:abstract=`) as the user of this process. File descriptors are not
 * negotiated: the bus delivers no message with file descriptors, and the kernel closes any that
 * come.
 *
 * @throws Error for other kinds of address
 */
export function openBusConnection(address: string, events: ConnectionEvents): BusConnection {
  const socket = connect({
    path: socketPathOf(address),
    onread: { buffer: Buffer.alloc(READ_BYTES), callback: onBytes },
  });
  let unsent: Buffer[] | undefined = [];
  let isOver = false;
  const end = (reason: string): void => {
    if (isOver) return;
    isOver = true;
    socket.destroy();
    events.onEnd(reason);
  };
  const read = createFrameReader(events);
  const letIn = createLogIn(socket, () => {
    for (const bytes of unsent ?? []) socket.write(bytes);
    unsent = undefined;
  });
  function onBytes(length: number, buffer: Uint8Array): boolean {
    try {
      read(letIn(Buffer.from(buffer.buffer, buffer.byteOffset, length)));
    } catch (error) {
      if (!(error instanceof BusProtocolError)) throw error;
      end(error.message);
    }
    return true;
  }
  socket.on('drain', () => socket.resume());
  socket.on('error', (error) => end(systemCodeOf(error) === 'ENOENT' ? 'there is no such socket' : reasonOf(error)));
  socket.on('end', () => end('the bus closed the connection'));
  socket.on('close', () => end('the connection was closed'));
  return {
    send: (message, body) => {
      const parts = body === undefined ? [marshallMessage(message)[0]] : [headOf(message, body.length), body];
      if (unsent !== undefined) {
        unsent.push(...parts);
        return;
      }
      for (const bytes of parts) socket.write(bytes);
      if (socket.writableLength > UNSENT_MAX_BYTES) socket.pause();
    },
    close: () => end('closed by this program'),
  };
}

/** A message up to its body. */
function headOf(message: Message, bodyBytes: number): Buffer {
  const [head] = marshall(Object.assign(message, { body: undefined }));
  head.writeUInt32LE(bodyBytes, 4);
  return head;
}

/**
 * Authenticates with EXTERNAL (D-Bus specification, "Authentication Protocol").
 *
 * @param onIn called when messages may be sent
 * @returns a function that takes received bytes and returns those that belong to messages. @throws
 *   BusProtocolError when the bus refuses the authentication
 */
function createLogIn(socket: Socket, onIn: () => void): (chunk: Buffer) => Buffer {
  const uid = String(process.geteuid?.() ?? 0);
  socket.write(`\0AUTH EXTERNAL ${Buffer.from(uid).toString('hex')}\r\n`);
  let line: Buffer | undefined = Buffer.alloc(0);
  return (chunk) => {
    if (line === undefined) return chunk;
    const text = Buffer.concat([line, chunk]);
    const length = text.indexOf('\r\n');
    if (length < 0 && text.length <= LINE_MAX_BYTES) {
      line = text;
      return Buffer.alloc(0);
    }
    const answer = text.toString('latin1', 0, Math.max(0, length));
    if (!/^OK( |$)/.test(answer))
      throw new BusProtocolError(`the bus does not let uid ${uid} in: '${answer.slice(0, 100)}'`);
    line = undefined;
    socket.write('BEGIN\r\n');
    onIn();
    return text.subarray(length + 2);
  };
}

/** The path of the socket, with a leading zero for an abstract one. */
function socketPathOf(address: string): string {
  const [first = ''] = address.split(';');
  const [, kind, value] = /^unix:(?:.*,)?(path|abstract)=([^,]*)/.exec(first) ?? [];
  if (value === undefined) throw new Error('only addresses with unix:path= or unix:abstract= are understood');
  return kind === 'abstract' ? `\0${decodeURIComponent(value)}` : decodeURIComponent(value);
}
