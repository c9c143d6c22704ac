import { Message } from 'dbus-next/lib/message-type.js';
import { Variant } from 'dbus-next/lib/variant.js';
import { AppError, reasonOf } from '../platform/app-error.ts';
import {
  type BusConnection,
  createPendingCalls,
  deliver,
  type Incoming,
  isWanted,
  openBusConnection,
} from './wire/connection.ts';
import { MESSAGE_TYPE } from './wire/frames.ts';
import type { BusCall, BusSignal, CallCheck, CallHandler, OutgoingSignal, SignalHeader } from './wire/types.ts';

export { writeBody } from './wire/frames.ts';
export {
  type BusCall,
  BusErrorReply,
  type BusReply,
  type BusSignal,
  type CallCheck,
  type CallHandler,
  type CallHeader,
  type IncomingCall,
  NO_REPLY_EXPECTED,
  type OutgoingSignal,
  type SignalHeader,
} from './wire/types.ts';

/** D-Bus type `v`. */
export function variant(signature: string, value: unknown): unknown {
  return new Variant(signature, value);
}

/** The value itself when it is no variant. */
export function unwrapVariant(value: unknown): unknown {
  return value instanceof Variant ? value.value : value;
}

/** There is no bus, or no connection to it. */
type BusErrorCode = 'platform/bus-unreachable';

export interface MessageBus {
  /** For example `:1.42`. */
  readonly uniqueName: string;
  /**
   * Waits for the reply until `signal` aborts.
   *
   * @throws BusErrorReply when the peer replied with an error; AppError `platform/bus-unreachable`
   *   when the connection is closed
   */
  call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]>;
  /**
   * The caller adds match rules (`AddMatch`). Any user may send us any signal.
   *
   * @param isExpected decides by its header whether a signal is read. Default: all. A signal above
   *   1 MiB is never read
   */
  onSignal(listener: (signal: BusSignal) => void, isExpected?: (header: SignalHeader) => boolean): () => void;
  /**
   * Answers incoming calls; without a handler with `UnknownMethod`. A call with a body above 8 KiB,
   * or from a sender with 16 unanswered calls, is answered `LimitsExceeded` and its body is not
   * read.
   *
   * @param check default: no error
   */
  serve(handler: CallHandler | undefined, check?: CallCheck): void;
  emit(signal: OutgoingSignal): void;
  /** Called once, also after {@link close}. */
  onClose(listener: (reason: string) => void): () => void;
  close(): void;
}

const BUS = {
  destination: 'org.freedesktop.DBus',
  path: '/org/freedesktop/DBus',
  interface: 'org.freedesktop.DBus',
};
/** To the bus itself, as `AddMatch` (D-Bus specification, "Message Bus Messages"). */
export function busCall(member: string, signature: string, body: readonly unknown[]): BusCall {
  return { ...BUS, member, signature, body };
}

/**
 * Connects to `address` (D-Bus specification, "Server Addresses"; `unix:path=` and
 * `unix:abstract=`) and calls `Hello`.
 *
 * @throws AppError `platform/bus-unreachable` (`retry`) when nothing answers
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

interface Wire extends Incoming {
  readonly address: string;
  readonly closeListeners: Set<(reason: string) => void>;
  connection: BusConnection | undefined;
  uniqueName: string;
  nextSerial: number;
  closedReason: string | undefined;
}

function createWire(address: string): { bus: MessageBus; setUniqueName: (name: string) => void } {
  const wire: Wire = {
    address,
    pending: createPendingCalls(),
    signals: new Set(),
    closeListeners: new Set(),
    unanswered: new Map(),
    connection: undefined,
    uniqueName: '',
    nextSerial: 1,
    handler: undefined,
    check: () => undefined,
    send: (message, body) => void send(message, wire, body),
    closedReason: undefined,
  };
  try {
    wire.connection = openBusConnection(address, {
      onHeader: (header) => isWanted(header, wire),
      onMessage: (header, body) => deliver(header, body, wire),
      onEnd: (reason) => {
        wire.closedReason = reason;
        wire.pending.failAll(unreachable(address, reason));
        for (const listener of wire.closeListeners) listener(reason);
      },
    });
  } catch (error) {
    throw unreachable(address, reasonOf(error));
  }
  return {
    bus: busOn(wire),
    setUniqueName: (name) => {
      wire.uniqueName = name;
    },
  };
}

function busOn(wire: Wire): MessageBus {
  return {
    get uniqueName() {
      return wire.uniqueName;
    },
    call: async (request, signal) => {
      signal.throwIfAborted();
      if (wire.closedReason !== undefined) throw unreachable(wire.address, wire.closedReason);
      return wire.pending.add(send(new Message({ ...request, body: [...(request.body ?? [])] }), wire), signal);
    },
    onSignal: (listener, isExpected = () => true) => subscribe(wire.signals, { listener, isExpected }),
    serve: (handler, check = () => undefined) => {
      wire.handler = handler;
      wire.check = check;
    },
    emit: (signal) => void send(new Message({ ...signal, type: MESSAGE_TYPE.signal, body: [...signal.body] }), wire),
    onClose: (listener) => subscribe(wire.closeListeners, listener),
    close: () => wire.connection?.close(),
  };
}

/**
 * Does nothing after the connection has ended. @returns its serial @throws Error when its body does
 * not fit its signature
 */
function send(message: Message, wire: Wire, body?: Buffer): number {
  const serial = wire.nextSerial++;
  message.serial = serial;
  if (wire.closedReason === undefined) wire.connection?.send(message, body);
  return serial;
}

function subscribe<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

function unreachable(address: string, reason: string): AppError<BusErrorCode> {
  return new AppError({
    code: 'platform/bus-unreachable',
    message: `The D-Bus message bus at ${address} is not reachable: ${reason}. Is dbus.service running?`,
    disposition: 'retry',
  });
}
