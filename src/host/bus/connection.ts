import { connect, type Socket } from 'node:net';
import { marshallMessage } from 'dbus-next/lib/marshall-compat.js';
import { marshall } from 'dbus-next/lib/message.js';
import type { Message } from 'dbus-next/lib/message-type.js';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import { BusProtocolError, createFrameReader, type MessageSink } from './frames.ts';

interface ConnectionEvents extends MessageSink {
  /** It is called once, for any reason. */
  onEnd(reason: string): void;
}

/** The longest line of the bus during the authentication. */
const LINE_MAX_BYTES = 1024;
/** The size of the one read buffer. */
const READ_BYTES = 64 * 1024;
/** Reading stops while this much is unsent: a client that reads no answers has to wait. */
const UNSENT_MAX_BYTES = 1024 * 1024;

/**
 * A connection as the user of this process. Its address is the first one of a list (D-Bus
 * specification, "Server Addresses"; `unix:path=` or `unix:abstract=`). File descriptors are not
 * negotiated: the bus delivers no message with them, and the kernel closes any that come.
 */
export class BusConnection {
  private readonly socket: Socket;
  private readonly read: (chunk: Buffer) => void;
  /** It is undefined once messages may be sent. */
  private unsent: Buffer[] | undefined = [];
  /** The answer to the authentication; undefined after it. */
  private line: Buffer | undefined = Buffer.alloc(0);
  private isOver = false;

  /** @throws Error for other kinds of address */
  constructor(
    address: string,
    private readonly events: ConnectionEvents,
  ) {
    this.read = createFrameReader(events);
    this.socket = connect({
      path: socketPathOf(address),
      onread: {
        buffer: Buffer.alloc(READ_BYTES),
        callback: (length, buffer) => this.onBytes(Buffer.from(buffer.buffer, buffer.byteOffset, length)),
      },
    });
    this.socket.on('drain', () => this.socket.resume());
    this.socket.on('error', (error) =>
      this.end(systemCodeOf(error) === 'ENOENT' ? 'there is no such socket' : reasonOf(error)),
    );
    this.socket.on('end', () => this.end('the bus closed the connection'));
    this.socket.on('close', () => this.end('the connection was closed'));
    // EXTERNAL (D-Bus specification, "Authentication Protocol").
    this.socket.write(`\0AUTH EXTERNAL ${Buffer.from(ownUid()).toString('hex')}\r\n`);
  }

  /**
   * Queued until the authentication is complete.
   *
   * @param body the bytes of its body. Default: that of `message`
   * @throws Error when the body of `message` does not fit its signature
   */
  send(message: Message, body?: Buffer): void {
    const parts = body === undefined ? [marshallMessage(message)[0]] : [headOf(message, body.length), body];
    if (this.unsent !== undefined) {
      this.unsent.push(...parts);
      return;
    }
    for (const bytes of parts) this.socket.write(bytes);
    if (this.socket.writableLength > UNSENT_MAX_BYTES) this.socket.pause();
  }

  close(): void {
    this.end('closed by this program');
  }

  private end(reason: string): void {
    if (this.isOver) return;
    this.isOver = true;
    this.socket.destroy();
    this.events.onEnd(reason);
  }

  private onBytes(chunk: Buffer): boolean {
    try {
      this.read(this.line === undefined ? chunk : this.authenticate(this.line, chunk));
    } catch (error) {
      if (!(error instanceof BusProtocolError)) throw error;
      this.end(error.message);
    }
    return true;
  }

  /** @returns the bytes after the answer. @throws BusProtocolError when the bus refuses */
  private authenticate(line: Buffer, chunk: Buffer): Buffer {
    const text = Buffer.concat([line, chunk]);
    const length = text.indexOf('\r\n');
    if (length < 0 && text.length <= LINE_MAX_BYTES) {
      this.line = text;
      return Buffer.alloc(0);
    }
    const answer = text.toString('latin1', 0, Math.max(0, length));
    if (!/^OK( |$)/.test(answer)) {
      throw new BusProtocolError(`the bus does not let uid ${ownUid()} in: '${answer.slice(0, 100)}'`);
    }
    this.line = undefined;
    this.socket.write('BEGIN\r\n');
    for (const bytes of this.unsent ?? []) this.socket.write(bytes);
    this.unsent = undefined;
    return text.subarray(length + 2);
  }
}

function ownUid(): string {
  return String(process.geteuid?.() ?? 0);
}

function headOf(message: Message, bodyBytes: number): Buffer {
  const [head] = marshall(Object.assign(message, { body: undefined }));
  head.writeUInt32LE(bodyBytes, 4);
  return head;
}

/** The path of an abstract socket has a leading zero. */
function socketPathOf(address: string): string {
  const [first = ''] = address.split(';');
  const [, kind, value] = /^unix:(?:.*,)?(path|abstract)=([^,]*)/.exec(first) ?? [];
  if (value === undefined) throw new Error('only addresses with unix:path= or unix:abstract= are understood');
  return kind === 'abstract' ? `\0${decodeURIComponent(value)}` : decodeURIComponent(value);
}
