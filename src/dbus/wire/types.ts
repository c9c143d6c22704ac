/**
 * A method call. `body` matches `signature` (D-Bus specification, "Type System"); both default to
 * empty.
 */
export interface BusCall {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly unknown[];
}

/** A signal. `sender` is the unique name of its sender. */
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

/** A signal before its body is read. */
export type SignalHeader = Omit<BusSignal, 'body'>;

/** A method call before its body is read. `interface` is empty when the caller gave none. */
export interface CallHeader {
  readonly sender: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature: string;
  /**
   * D-Bus specification, "Message Format": {@link NO_REPLY_EXPECTED}; 4 allows interactive
   * authorization.
   */
  readonly flags: number;
}

/** A method call to one of our names. */
export interface IncomingCall extends CallHeader {
  readonly body: readonly unknown[];
}

/** A flag of a call: nobody gets its answer. */
export const NO_REPLY_EXPECTED = 1;

/**
 * The answer of a handler: signature and body of the method return. A body may be the bytes of
 * `writeBody`.
 */
export interface BusReply {
  readonly signature: string;
  readonly body: readonly unknown[] | Buffer;
}

/**
 * Answers incoming calls. Throw {@link BusErrorReply} for a D-Bus error with a certain name. Any
 * other error becomes `org.freedesktop.DBus.Error.Failed`.
 */
export type CallHandler = (call: IncomingCall) => Promise<BusReply>;

/**
 * Checks a call before its body is read. Returns the error to answer with, or undefined to call the
 * handler.
 */
export type CallCheck = (call: CallHeader) => BusErrorReply | undefined;

/**
 * An error reply of a D-Bus peer. `errorName` is for example `org.freedesktop.systemd1.NoSuchUnit`.
 */
export class BusErrorReply extends Error {
  override readonly name = 'BusErrorReply';
  readonly errorName: string;

  constructor(errorName: string, message: string) {
    super(message);
    this.errorName = errorName;
  }
}
