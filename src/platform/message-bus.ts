import createConnection from 'dbus-next/lib/connection.js';
import { Message } from 'dbus-next/lib/message-type.js';
import { Variant } from 'dbus-next/lib/variant.js';
import { AppError, reasonOf } from './app-error.ts';

/** A value of D-Bus type `v`: a signature and a value that matches it. */
export function variant(signature: string, value: unknown): unknown {
  return new Variant(signature, value);
}

/** The value inside a D-Bus variant, or the value itself when it is none. */
export function unwrapVariant(value: unknown): unknown {
  return value instanceof Variant ? value.value : value;
}

/** A method call. `body` matches `signature` (D-Bus specification, "Type System"); both default to empty. */
export interface BusCall {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly unknown[];
}

/** A signal. `sender` is the unique name of who sent it. */
export interface BusSignal {
  readonly sender: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly body: readonly unknown[];
}

/** A signal to send. */
export interface OutgoingSignal {
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature: string;
  readonly body: readonly unknown[];
}

/** A method call that came in for a name of ours. */
export interface IncomingCall {
  readonly sender: string;
  readonly path: string;
  readonly interface: string | undefined;
  readonly member: string;
  readonly signature: string;
  readonly body: readonly unknown[];
}

/** What a handler answers: the signature and body of the method return. */
export interface BusReply {
  readonly signature: string;
  readonly body: readonly unknown[];
}

/**
 * Answers incoming calls. Throw {@link BusErrorReply} for a D-Bus error of that name; anything else thrown becomes
 * `org.freedesktop.DBus.Error.Failed`.
 */
export type CallHandler = (call: IncomingCall) => Promise<BusReply>;

/** An error reply of D-Bus: the peer was reached and said no. `errorName` as `org.freedesktop.systemd1.NoSuchUnit`. */
export class BusErrorReply extends Error {
  override readonly name = 'BusErrorReply';
  readonly errorName: string;

  constructor(errorName: string, message: string) {
    super(message);
    this.errorName = errorName;
  }
}

/** Code of errors of {@link MessageBus}: the bus or the connection to it is not there. */
type BusErrorCode = 'platform/bus-unreachable';

/** One connection to a D-Bus message bus. */
export interface MessageBus {
  /** Our unique name on the bus, as `:1.42`. */
  readonly uniqueName: string;
  /**
   * Calls a method and waits for its reply, for as long as `signal` lets it.
   *
   * @throws BusErrorReply when the peer answered with an error; AppError `platform/bus-unreachable` when the connection is gone.
   */
  call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]>;
  /** Hands every signal that the bus delivers to `listener`; match rules are the caller's (`AddMatch`). */
  onSignal(listener: (signal: BusSignal) => void): () => void;
  /** Answers incoming method calls; without a handler they are answered `UnknownMethod`. */
  serve(handler: CallHandler | undefined): void;
  /** Sends a signal to whoever listens. */
  emit(signal: OutgoingSignal): void;
  /** Calls `listener` once when the connection ends, also by {@link close}. */
  onClose(listener: (reason: string) => void): () => void;
  close(): void;
}

const BUS = {
  destination: 'org.freedesktop.DBus',
  path: '/org/freedesktop/DBus',
  interface: 'org.freedesktop.DBus',
};
const MESSAGE_TYPE = { call: 1, return: 2, error: 3, signal: 4 } as const;
const NO_REPLY_EXPECTED = 1;
const FAILED = 'org.freedesktop.DBus.Error.Failed';
const UNKNOWN_METHOD = 'org.freedesktop.DBus.Error.UnknownMethod';

/** A call to the bus itself, as `AddMatch` or `RequestName` (D-Bus specification, "Message Bus Messages"). */
export function busCall(member: string, signature: string, body: readonly unknown[]): BusCall {
  return { ...BUS, member, signature, body };
}

/**
 * Connects to the bus at `address` (D-Bus specification, "Server Addresses"; `unix:path=` and `unix:abstract=`) and says `Hello`.
 *
 * @throws AppError `platform/bus-unreachable` (`retry`) when nothing answers there.
 */
export async function connectMessageBus(address: string, signal: AbortSignal): Promise<MessageBus> {
  signal.throwIfAborted();
  const wire = createWire(address);
  try {
    const [name] = await wire.bus.call(busCall('Hello', '', []), signal);
    wire.setUniqueName(String(name));
    return wire.bus;
  } catch (error) {
    wire.bus.close();
    throw error;
  }
}

type Connection = ReturnType<typeof createConnection>;

/** Calls that wait for their reply, by serial. */
interface PendingCalls {
  add(serial: number, signal: AbortSignal): Promise<readonly unknown[]>;
  settle(reply: Message): void;
  failAll(error: AppError): void;
}

function createPendingCalls(): PendingCalls {
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
    settle: (reply) => {
      const call = calls.get(Number(reply.replySerial));
      calls.delete(Number(reply.replySerial));
      if (reply.type === MESSAGE_TYPE.return) call?.resolve(reply.body);
      else call?.reject(new BusErrorReply(reply.errorName, String(reply.body[0] ?? reply.errorName)));
    },
    failAll: (error) => {
      for (const call of calls.values()) call.reject(error);
      calls.clear();
    },
  };
}

function createWire(address: string): {
  bus: MessageBus;
  setUniqueName: (name: string) => void;
} {
  const pending = createPendingCalls();
  const signalListeners = new Set<(signal: BusSignal) => void>();
  const closeListeners = new Set<(reason: string) => void>();
  let uniqueName = '';
  let nextSerial = 1;
  let handler: CallHandler | undefined;
  let closedReason: string | undefined;
  const connection = open(address);

  const send = (message: Message): number => {
    const serial = nextSerial++;
    message.serial = serial;
    connection.message(message);
    return serial;
  };
  const end = (reason: string): void => {
    if (closedReason !== undefined) return;
    closedReason = reason;
    connection.stream.destroy();
    pending.failAll(unreachable(address, reason));
    for (const listener of closeListeners) listener(reason);
  };
  connection.on('error', (error: unknown) => end(reasonOf(error)));
  connection.on('end', () => end('the bus closed the connection'));
  connection.stream.on('close', () => end('the connection was closed'));
  connection.on('message', (message: Message) => {
    if (message.type === MESSAGE_TYPE.signal) {
      for (const listener of [...signalListeners]) listener(message);
    } else if (message.type === MESSAGE_TYPE.call) {
      void answer(message, handler, send);
    } else pending.settle(message);
  });

  const bus: MessageBus = {
    get uniqueName() {
      return uniqueName;
    },
    call: async (request, signal) => {
      signal.throwIfAborted();
      if (closedReason !== undefined) throw unreachable(address, closedReason);
      return pending.add(send(new Message({ ...request, body: [...(request.body ?? [])] })), signal);
    },
    onSignal: (listener) => subscribe(signalListeners, listener),
    serve: (next) => {
      handler = next;
    },
    emit: (signal) => {
      if (closedReason === undefined)
        send(
          new Message({
            ...signal,
            type: MESSAGE_TYPE.signal,
            body: [...signal.body],
          }),
        );
    },
    onClose: (listener) => subscribe(closeListeners, listener),
    close: () => end('closed by this program'),
  };
  return {
    bus,
    setUniqueName: (name) => {
      uniqueName = name;
    },
  };
}

function subscribe<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

function open(address: string): Connection {
  try {
    return createConnection({ busAddress: withoutNativeSocket(address) });
  } catch (error) {
    throw unreachable(address, reasonOf(error));
  }
}

/** `path=` and `abstract=` make dbus-next load a native module that can pass file descriptors; with `socket=` it uses Node's own sockets. */
function withoutNativeSocket(address: string): string {
  const first = address.split(';')[0] ?? address;
  return first.replace(/^unix:(?:.*,)?(path|abstract)=([^,]*).*$/, (_all, kind: string, name: string) => {
    const decoded = decodeURIComponent(name);
    return `unix:socket=${kind === 'abstract' ? `\0${decoded}` : decoded}`;
  });
}

async function answer(call: Message, handler: CallHandler | undefined, send: (reply: Message) => void): Promise<void> {
  const reply = await replyTo(call, handler);
  if ((call.flags & NO_REPLY_EXPECTED) !== 0) return;
  try {
    send(reply);
  } catch (error) {
    // The body did not match its signature, or the connection went away in between.
    trySend(Message.newError(call, FAILED, reasonOf(error)), send);
  }
}

function trySend(message: Message, send: (message: Message) => void): void {
  try {
    send(message);
  } catch {
    // The connection is gone; its end is reported by onClose.
  }
}

async function replyTo(call: Message, handler: CallHandler | undefined): Promise<Message> {
  try {
    if (handler === undefined) throw new BusErrorReply(UNKNOWN_METHOD, `No method ${call.member} here`);
    const { signature, body } = await handler(call);
    return Message.newMethodReturn(call, signature, [...body]);
  } catch (error) {
    const name = error instanceof BusErrorReply ? error.errorName : FAILED;
    return Message.newError(call, name, reasonOf(error));
  }
}

function unreachable(address: string, reason: string): AppError<BusErrorCode> {
  return new AppError({
    code: 'platform/bus-unreachable',
    message: `The D-Bus message bus at ${address} is not reachable: ${reason}. Is dbus.service running?`,
    disposition: 'retry',
  });
}
