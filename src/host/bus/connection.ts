import { connect, type Socket } from 'node:net';
import { marshallMessage } from 'dbus-next/lib/marshall-compat.js';
import { marshall } from 'dbus-next/lib/message.js';
import { Message } from 'dbus-next/lib/message-type.js';
import { reasonOf, systemCodeOf } from '../../platform/app-error.ts';
import {
  BusProtocolError,
  createFrameReader,
  MESSAGE_TYPE,
  type MessageHeader,
  type MessageSink,
  readBody,
} from './frames.ts';
import {
  BusErrorReply,
  type BusSignal,
  type CallCheck,
  type CallHandler,
  type IncomingCall,
  NO_REPLY_EXPECTED,
  type SignalHeader,
} from './types.ts';

interface ConnectionEvents extends MessageSink {
  /** Called once, for any reason. */
  onEnd(reason: string): void;
}

export interface BusConnection {
  /**
   * Queued until the authentication is complete.
   *
   * @param body the bytes of its body. Default: that of `message`
   * @throws Error when the body of `message` does not fit its signature
   */
  send(message: Message, body?: Buffer): void;
  close(): void;
}

/** Of the bus during the authentication. */
const LINE_MAX_BYTES = 1024;
/** Of the one read buffer. */
const READ_BYTES = 64 * 1024;
/** While this much is unsent, nothing is read: a client that reads no answers has to wait. */
const UNSENT_MAX_BYTES = 1024 * 1024;

/**
 * Connects to `address` (D-Bus specification, "Server Addresses"; the first one, `unix:path=` or
 * `unix:abstract=`) as the user of this process. File descriptors are not negotiated: the bus
 * delivers no message with them, and the kernel closes any that come.
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

function headOf(message: Message, bodyBytes: number): Buffer {
  const [head] = marshall(Object.assign(message, { body: undefined }));
  head.writeUInt32LE(bodyBytes, 4);
  return head;
}

/**
 * EXTERNAL (D-Bus specification, "Authentication Protocol").
 *
 * @param onIn called when messages may be sent
 * @returns a function that takes received bytes and returns those of messages. @throws
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

/** With a leading zero for an abstract one. */
function socketPathOf(address: string): string {
  const [first = ''] = address.split(';');
  const [, kind, value] = /^unix:(?:.*,)?(path|abstract)=([^,]*)/.exec(first) ?? [];
  if (value === undefined) throw new Error('only addresses with unix:path= or unix:abstract= are understood');
  return kind === 'abstract' ? `\0${decodeURIComponent(value)}` : decodeURIComponent(value);
}

interface SignalSubscription {
  readonly listener: (signal: BusSignal) => void;
  readonly isExpected: (header: SignalHeader) => boolean;
}

/** Receivers of messages, and state for their limits. */
export interface Incoming {
  readonly pending: PendingCalls;
  readonly signals: Set<SignalSubscription>;
  /** Calls by sender. */
  readonly unanswered: Map<string, number>;
  handler: CallHandler | undefined;
  check: CallCheck;
  /**
   * Does nothing after the connection has ended. @throws Error when its body does not fit its
   * signature
   */
  readonly send: (answer: Message, body?: Buffer) => void;
}

const FAILED = 'org.freedesktop.DBus.Error.Failed';
const INVALID_ARGS = 'org.freedesktop.DBus.Error.InvalidArgs';
const LIMITS_EXCEEDED = 'org.freedesktop.DBus.Error.LimitsExceeded';
const UNKNOWN_METHOD = 'org.freedesktop.DBus.Error.UnknownMethod';

/** As the bus writes it for a sender (D-Bus specification, "Bus names"). */
const UNIQUE_NAME = /^:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+$/;

/** Our longest argument is a path of 4 KiB. */
const CALL_MAX_BYTES = 8 * 1024;
/** Properties of a unit have some KiB. */
const SIGNAL_MAX_BYTES = 1024 * 1024;
/** From called services: lists of units, and documents of the daemon. */
const REPLY_MAX_BYTES = 16 * 1024 * 1024;
/** Unanswered ones. */
const CALLS_PER_SENDER = 16;

/** Answers a refused call. */
export function isWanted(header: MessageHeader, incoming: Incoming): boolean {
  switch (header.type) {
    case MESSAGE_TYPE.call: {
      if (!UNIQUE_NAME.test(header.sender)) return false;
      const refusal = refusalOf(header, incoming);
      if (refusal !== undefined) sendAnswer(header, () => [errorTo(header, refusal)], incoming);
      return refusal === undefined;
    }
    case MESSAGE_TYPE.return:
    case MESSAGE_TYPE.error: {
      if (!incoming.pending.has(header.replySerial)) return false;
      if (header.bodyBytes <= REPLY_MAX_BYTES) return true;
      const what = `The answer has ${header.bodyBytes} bytes; at most ${REPLY_MAX_BYTES} are read`;
      incoming.pending.reject(header.replySerial, new BusErrorReply(LIMITS_EXCEEDED, what));
      return false;
    }
    case MESSAGE_TYPE.signal:
      return header.bodyBytes <= SIGNAL_MAX_BYTES && [...incoming.signals].some(({ isExpected }) => isExpected(header));
    default:
      return false;
  }
}

function refusalOf(call: MessageHeader, incoming: Incoming): BusErrorReply | undefined {
  if (incoming.handler === undefined) return new BusErrorReply(UNKNOWN_METHOD, `No method ${call.member} here`);
  const refusal = incoming.check(call);
  if (refusal !== undefined) return refusal;
  if (call.bodyBytes > CALL_MAX_BYTES) {
    const what = `The arguments of ${call.member} have ${call.bodyBytes} bytes; at most ${CALL_MAX_BYTES} are read`;
    return new BusErrorReply(LIMITS_EXCEEDED, what);
  }
  if ((incoming.unanswered.get(call.sender) ?? 0) < CALLS_PER_SENDER) return undefined;
  return new BusErrorReply(LIMITS_EXCEEDED, `${CALLS_PER_SENDER} calls of yours have no answer yet; wait for one`);
}

/**
 * If the body can't be parsed, a call is answered with an error, a reply fails its call, and a
 * signal is dropped.
 */
export function deliver(header: MessageHeader, bytes: Buffer, incoming: Incoming): void {
  let body: readonly unknown[];
  try {
    body = readBody(header, bytes);
  } catch (error) {
    const fault = new BusErrorReply(INVALID_ARGS, `The body does not fit its signature '${header.signature}'`);
    if (header.type === MESSAGE_TYPE.call) sendAnswer(header, () => [errorTo(header, fault)], incoming);
    else if (header.type !== MESSAGE_TYPE.signal) incoming.pending.reject(header.replySerial, error);
    return;
  }
  switch (header.type) {
    case MESSAGE_TYPE.call:
      void answer({ ...header, body }, header, incoming);
      return;
    case MESSAGE_TYPE.return:
      incoming.pending.resolve(header.replySerial, body);
      return;
    case MESSAGE_TYPE.error: {
      const text = String(body[0] ?? header.errorName);
      incoming.pending.reject(header.replySerial, new BusErrorReply(header.errorName, text));
      return;
    }
    default:
      for (const { listener, isExpected } of [...incoming.signals]) {
        if (isExpected(header)) listener({ ...header, body });
      }
  }
}

async function answer(call: IncomingCall, header: MessageHeader, incoming: Incoming): Promise<void> {
  const { sender } = call;
  incoming.unanswered.set(sender, (incoming.unanswered.get(sender) ?? 0) + 1);
  const reply = await replyTo(call, header, incoming.handler);
  const left = (incoming.unanswered.get(sender) ?? 1) - 1;
  if (left === 0) incoming.unanswered.delete(sender);
  else incoming.unanswered.set(sender, left);
  sendAnswer(header, reply, incoming);
}

/** The body where its bytes were made before. */
type Answer = readonly [message: Message, body?: Buffer];

/** Unless the caller expects no answer. */
function sendAnswer(call: MessageHeader, reply: () => Answer, incoming: Incoming): void {
  if ((call.flags & NO_REPLY_EXPECTED) !== 0) return;
  try {
    incoming.send(...reply());
  } catch (error) {
    // The body did not match its signature.
    incoming.send(errorTo(call, new BusErrorReply(FAILED, reasonOf(error))));
  }
}

async function replyTo(
  call: IncomingCall,
  header: MessageHeader,
  handler: CallHandler | undefined,
): Promise<() => Answer> {
  try {
    if (handler === undefined) throw new BusErrorReply(UNKNOWN_METHOD, `No method ${call.member} here`);
    const { signature, body } = await handler(call);
    return () =>
      Buffer.isBuffer(body)
        ? [Message.newMethodReturn(header, signature, []), body]
        : [Message.newMethodReturn(header, signature, [...body])];
  } catch (error) {
    return () => [errorTo(header, error)];
  }
}

function errorTo(call: MessageHeader, error: unknown): Message {
  const name = error instanceof BusErrorReply ? error.errorName : FAILED;
  return Message.newError(call, name, reasonOf(error));
}

/** By serial. */
interface PendingCalls {
  /**
   * Resolves to the body of the reply. @throws BusErrorReply, the reason of `signal`, or the error
   * of {@link failAll}
   */
  add(serial: number, signal: AbortSignal): Promise<readonly unknown[]>;
  has(serial: number): boolean;
  resolve(serial: number, body: readonly unknown[]): void;
  reject(serial: number, reason: unknown): void;
  failAll(error: Error): void;
}

export function createPendingCalls(): PendingCalls {
  const calls = new Map<number, { resolve(body: readonly unknown[]): void; reject(reason: unknown): void }>();
  return {
    add: (serial, signal) =>
      new Promise((resolve, reject) => {
        const onAbort = (): void => {
          calls.delete(serial);
          reject(signal.reason);
        };
        signal.addEventListener('abort', onAbort, { once: true });
        const settled = (): void => signal.removeEventListener('abort', onAbort);
        calls.set(serial, {
          resolve: (body) => {
            settled();
            resolve(body);
          },
          reject: (reason) => {
            settled();
            reject(reason);
          },
        });
      }),
    has: (serial) => calls.has(serial),
    resolve: (serial, body) => {
      calls.get(serial)?.resolve(body);
      calls.delete(serial);
    },
    reject: (serial, reason) => {
      calls.get(serial)?.reject(reason);
      calls.delete(serial);
    },
    failAll: (error) => {
      for (const call of calls.values()) call.reject(error);
      calls.clear();
    },
  };
}
