import { Message } from 'dbus-next/lib/message-type.js';
import { Variant } from 'dbus-next/lib/variant.js';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { deferred, untilAborted } from '../../platform/async/abort.ts';
import { listen, type Unsubscribe } from '../../platform/subscription.ts';
import { BusConnection } from './connection.ts';
import { MESSAGE_TYPE, type MessageHeader, readBody } from './frames.ts';
import { SenderTurns } from './sender-turns.ts';

interface Member {
  readonly path: string;
  readonly interface: string;
  readonly member: string;
}

/** `body` matches `signature` (D-Bus specification, "Type System"); both default to empty. */
export interface BusCall extends Member {
  readonly destination: string;
  readonly signature?: string;
  readonly body?: readonly unknown[];
}

/** `sender` is a unique name. */
export interface SignalHeader extends Member {
  readonly sender: string;
}

export interface BusSignal extends SignalHeader {
  readonly body: readonly unknown[];
}

export interface OutgoingSignal extends Member {
  readonly signature: string;
  readonly body: readonly unknown[];
}

/** The header of a call whose body is unread. `interface` is empty when the caller gave none. */
export interface CallHeader extends Member {
  readonly sender: string;
  readonly signature: string;
  /**
   * D-Bus specification, "Message Format": {@link NO_REPLY_EXPECTED}; 4 allows interactive
   * authorization.
   */
  readonly flags: number;
}

export interface IncomingCall extends CallHeader {
  readonly body: readonly unknown[];
}

/** The flag of a call whose caller expects no answer. */
export const NO_REPLY_EXPECTED = 1;

/** A body may be the bytes of `writeBody`. */
export interface BusReply {
  readonly signature: string;
  readonly body: readonly unknown[] | Buffer;
}

/**
 * Throw {@link BusErrorReply} for a certain error. Others become
 * `org.freedesktop.DBus.Error.Failed`.
 */
export type CallHandler = (call: IncomingCall) => Promise<BusReply>;

/** Runs before the body is read. @returns the error to answer with; undefined calls the handler */
export type CallCheck = (call: CallHeader) => BusErrorReply | undefined;

/** `errorName` is for example `org.freedesktop.systemd1.NoSuchUnit`. */
export class BusErrorReply extends Error {
  override readonly name = 'BusErrorReply';

  constructor(
    readonly errorName: string,
    message: string,
  ) {
    super(message);
  }
}

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

const BUS = {
  destination: 'org.freedesktop.DBus',
  path: '/org/freedesktop/DBus',
  interface: 'org.freedesktop.DBus',
};
/** A call to the bus, such as `AddMatch` (D-Bus specification, "Message Bus Messages"). */
export function busCall(member: string, signature: string, body: readonly unknown[]): BusCall {
  return { ...BUS, member, signature, body };
}

const FAILED = 'org.freedesktop.DBus.Error.Failed';
const INVALID_ARGS = 'org.freedesktop.DBus.Error.InvalidArgs';
const LIMITS_EXCEEDED = 'org.freedesktop.DBus.Error.LimitsExceeded';
const UNKNOWN_METHOD = 'org.freedesktop.DBus.Error.UnknownMethod';

/** The name that the bus writes for a sender (D-Bus specification, "Bus names"). */
const UNIQUE_NAME = /^:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+$/;

/** Our longest argument is a path of 4 KiB. */
const CALL_MAX_BYTES = 8 * 1024;
/** Properties of a unit have some KiB. */
const SIGNAL_MAX_BYTES = 1024 * 1024;
/** The limit for replies of services: lists of units, and documents of the daemon. */
const REPLY_MAX_BYTES = 16 * 1024 * 1024;
/** Unanswered ones. */
const CALLS_PER_SENDER = 16;

/**
 * Connects to `address` (D-Bus specification, "Server Addresses"; `unix:path=` and
 * `unix:abstract=`) and calls `Hello`.
 *
 * @throws AppError `platform/bus-unreachable` (`retry`) when nothing answers
 */
export async function connectMessageBus(address: string, signal: AbortSignal): Promise<MessageBus> {
  signal.throwIfAborted();
  const bus = new MessageBus(address);
  try {
    await bus.hello(signal);
    return bus;
  } catch (error) {
    bus.close();
    throw error;
  }
}

interface SignalSubscription {
  readonly listener: (signal: BusSignal) => void;
  readonly isExpected: (header: SignalHeader) => boolean;
}

/** The body where its bytes were made before. */
type Answer = readonly [message: Message, body?: Buffer];

export class MessageBus {
  private readonly connection: BusConnection;
  /** Calls without an answer, by serial. */
  private readonly pending = new Map<number, ReturnType<typeof deferred<readonly unknown[]>>>();
  private readonly signals = new Set<SignalSubscription>();
  private readonly closeListeners = new Set<(reason: string) => void>();
  /** Number of unanswered calls by sender. */
  private readonly unanswered = new Map<string, number>();
  private readonly turns = new SenderTurns();
  private handler: CallHandler | undefined;
  private check: CallCheck = () => undefined;
  private nextSerial = 1;
  private closedReason: string | undefined;
  /** For example `:1.42`; empty before {@link hello}. */
  uniqueName = '';

  /** See {@link connectMessageBus}. */
  constructor(private readonly address: string) {
    try {
      this.connection = new BusConnection(address, {
        onHeader: (header) => this.isWanted(header),
        onMessage: (header, body) => this.deliver(header, body),
        onEnd: (reason) => {
          this.closedReason = reason;
          this.turns.clear();
          for (const call of this.pending.values()) call.reject(unreachable(address, reason));
          for (const listener of this.closeListeners) listener(reason);
        },
      });
    } catch (error) {
      throw unreachable(address, reasonOf(error));
    }
  }

  /** The first call of a connection. */
  async hello(signal: AbortSignal): Promise<void> {
    const [name] = await this.call(busCall('Hello', '', []), signal);
    this.uniqueName = String(name);
  }

  /**
   * Waits for the reply until `signal` aborts.
   *
   * @throws BusErrorReply when the peer replied with an error; AppError `platform/bus-unreachable`
   *   when the connection is closed
   */
  async call(call: BusCall, signal: AbortSignal): Promise<readonly unknown[]> {
    signal.throwIfAborted();
    if (this.closedReason !== undefined) throw unreachable(this.address, this.closedReason);
    const serial = this.send(new Message({ ...call, body: [...(call.body ?? [])] }));
    const answer = deferred<readonly unknown[]>();
    this.pending.set(serial, answer);
    return untilAborted(answer.promise, signal).finally(() => this.pending.delete(serial));
  }

  /**
   * The caller adds match rules (`AddMatch`). Any user may send us any signal.
   *
   * @param isExpected decides by its header whether a signal is read. Default: all. A signal above
   *   1 MiB is never read
   */
  onSignal(
    listener: (signal: BusSignal) => void,
    isExpected: (header: SignalHeader) => boolean = () => true,
  ): Unsubscribe {
    return listen(this.signals, { listener, isExpected });
  }

  /**
   * Answers incoming calls, of several senders in turns; without a handler with `UnknownMethod`. A
   * call with a body above 8 KiB, or from a sender with 16 unanswered calls, is answered
   * `LimitsExceeded` and its body is not read. A call from a sender for whom 32 wait gets no
   * answer.
   * @param check default: no error
   */
  serve(handler: CallHandler | undefined, check: CallCheck = () => undefined): void {
    this.handler = handler;
    this.check = check;
  }

  emit(signal: OutgoingSignal): void {
    this.send(new Message({ ...signal, type: MESSAGE_TYPE.signal, body: [...signal.body] }));
  }

  /** `listener` is called once, also after {@link close}. */
  onClose(listener: (reason: string) => void): Unsubscribe {
    return listen(this.closeListeners, listener);
  }

  close(): void {
    this.connection.close();
  }

  /**
   * Does nothing after the connection has ended. @returns its serial @throws Error when its body
   * does not fit its signature
   */
  private send(message: Message, body?: Buffer): number {
    const serial = this.nextSerial++;
    message.serial = serial;
    if (this.closedReason === undefined) this.connection.send(message, body);
    return serial;
  }

  /** Answers a refused call. */
  private isWanted(header: MessageHeader): boolean {
    switch (header.type) {
      case MESSAGE_TYPE.call: {
        if (!UNIQUE_NAME.test(header.sender)) return false;
        const refusal = this.refusalOf(header);
        if (refusal !== undefined) this.refuse(header, refusal);
        return refusal === undefined;
      }
      case MESSAGE_TYPE.return:
      case MESSAGE_TYPE.error: {
        if (!this.pending.has(header.replySerial)) return false;
        if (header.bodyBytes <= REPLY_MAX_BYTES) return true;
        const what = `The answer has ${header.bodyBytes} bytes; at most ${REPLY_MAX_BYTES} are read`;
        this.pending.get(header.replySerial)?.reject(new BusErrorReply(LIMITS_EXCEEDED, what));
        return false;
      }
      case MESSAGE_TYPE.signal:
        return header.bodyBytes <= SIGNAL_MAX_BYTES && [...this.signals].some(({ isExpected }) => isExpected(header));
      default:
        return false;
    }
  }

  private refusalOf(call: MessageHeader): BusErrorReply | undefined {
    if (this.handler === undefined) return new BusErrorReply(UNKNOWN_METHOD, `No method ${call.member} here`);
    const refusal = this.check(call);
    if (refusal !== undefined) return refusal;
    if (call.bodyBytes > CALL_MAX_BYTES) {
      const what = `The arguments of ${call.member} have ${call.bodyBytes} bytes; at most ${CALL_MAX_BYTES} are read`;
      return new BusErrorReply(LIMITS_EXCEEDED, what);
    }
    if ((this.unanswered.get(call.sender) ?? 0) < CALLS_PER_SENDER) return undefined;
    return new BusErrorReply(LIMITS_EXCEEDED, `${CALLS_PER_SENDER} calls of yours have no answer yet; wait for one`);
  }

  /**
   * If the body can't be parsed, a call gets an error, a reply fails its call, and a signal is
   * dropped.
   */
  private deliver(header: MessageHeader, bytes: Buffer): void {
    let body: readonly unknown[];
    try {
      body = readBody(header, bytes);
    } catch (error) {
      const fault = new BusErrorReply(INVALID_ARGS, `The body does not fit its signature '${header.signature}'`);
      if (header.type === MESSAGE_TYPE.call) this.refuse(header, fault);
      else if (header.type !== MESSAGE_TYPE.signal) this.pending.get(header.replySerial)?.reject(error);
      return;
    }
    switch (header.type) {
      case MESSAGE_TYPE.call:
        this.accept({ ...header, body }, header);
        return;
      case MESSAGE_TYPE.return:
        this.pending.get(header.replySerial)?.resolve(body);
        return;
      case MESSAGE_TYPE.error: {
        const text = String(body[0] ?? header.errorName);
        this.pending.get(header.replySerial)?.reject(new BusErrorReply(header.errorName, text));
        return;
      }
      default:
        for (const { listener, isExpected } of [...this.signals]) {
          if (isExpected(header)) listener({ ...header, body });
        }
    }
  }

  private refuse(header: MessageHeader, refusal: BusErrorReply): void {
    this.turns.add(header.sender, () => this.answer(header, () => [errorTo(header, refusal)]));
  }

  private accept(call: IncomingCall, header: MessageHeader): void {
    const { sender } = call;
    if (!this.turns.add(sender, () => void this.handle(call, header))) return;
    this.unanswered.set(sender, (this.unanswered.get(sender) ?? 0) + 1);
  }

  private async handle(call: IncomingCall, header: MessageHeader): Promise<void> {
    const { sender } = call;
    const reply = await replyTo(call, header, this.handler);
    const remaining = (this.unanswered.get(sender) ?? 1) - 1;
    if (remaining === 0) this.unanswered.delete(sender);
    else this.unanswered.set(sender, remaining);
    this.answer(header, reply);
  }

  /** Does nothing if the caller expects no answer. */
  private answer(call: MessageHeader, reply: () => Answer): void {
    if ((call.flags & NO_REPLY_EXPECTED) !== 0) return;
    try {
      this.send(...reply());
    } catch (error) {
      // The body did not match its signature.
      this.send(errorTo(call, new BusErrorReply(FAILED, reasonOf(error))));
    }
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

function unreachable(address: string, reason: string): AppError<BusErrorCode> {
  return new AppError({
    code: 'platform/bus-unreachable',
    message: `The D-Bus message bus at ${address} is not reachable: ${reason}. Is dbus.service running?`,
    disposition: 'retry',
  });
}
