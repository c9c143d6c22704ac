import { Message } from 'dbus-next/lib/message-type.js';
import { reasonOf } from '../../platform/app-error.ts';
import { readBody } from './body.ts';
import { MESSAGE_TYPE, type MessageHeader } from './header.ts';
import type { PendingCalls } from './pending-calls.ts';
import {
  BusErrorReply,
  type BusSignal,
  type CallCheck,
  type CallHandler,
  type IncomingCall,
  NO_REPLY_EXPECTED,
  type SignalHeader,
} from './types.ts';

/** A listener for signals. */
export interface SignalSubscription {
  readonly listener: (signal: BusSignal) => void;
  readonly isExpected: (header: SignalHeader) => boolean;
}

/** The receivers of incoming messages, and the state for their limits. */
export interface Incoming {
  readonly pending: PendingCalls;
  readonly signals: Set<SignalSubscription>;
  /** Number of unanswered calls of each sender. */
  readonly unanswered: Map<string, number>;
  handler: CallHandler | undefined;
  check: CallCheck;
  /**
   * Sends an answer, unless the connection has ended. @throws Error when its body does not fit its
   * signature
   */
  readonly send: (answer: Message, body?: Buffer) => void;
}

const FAILED = 'org.freedesktop.DBus.Error.Failed';
const INVALID_ARGS = 'org.freedesktop.DBus.Error.InvalidArgs';
const LIMITS_EXCEEDED = 'org.freedesktop.DBus.Error.LimitsExceeded';
const UNKNOWN_METHOD = 'org.freedesktop.DBus.Error.UnknownMethod';

/**
 * The form of a unique name, which the bus writes as the sender (D-Bus specification, "Bus names").
 */
const UNIQUE_NAME = /^:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+$/;

/** The longest argument of a method of ours is a path, which Linux limits to 4 KiB. */
const CALL_MAX_BYTES = 8 * 1024;
/** The longest expected signals have the properties of a unit: some KiB. */
const SIGNAL_MAX_BYTES = 1024 * 1024;
/** Replies come from called services: lists of units, and documents of the daemon. */
const REPLY_MAX_BYTES = 16 * 1024 * 1024;
/** Limit of unanswered calls of one sender. */
const CALLS_PER_SENDER = 16;

/** Whether the body of a message is read. Answers a refused call. */
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
 * Passes a message to its receiver. If the body can't be parsed, a call is answered with an error,
 * a reply fails its call, and a signal is dropped.
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

/** What is sent: a message, and the bytes of its body where they were made before. */
type Answer = readonly [message: Message, body?: Buffer];

/** Sends the result of `reply`, unless the caller expects no answer. */
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
