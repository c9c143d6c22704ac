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

/** What is known of a signal before its body is read. */
export type SignalHeader = Omit<BusSignal, 'body'>;

/**
 * What is known of a method call before its body is read. `interface` is empty when the caller
 * named none.
 */
export interface CallHeader {
  readonly sender: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature: string;
  /** D-Bus specification, "Message Format": 4 allows interactive authorization. */
  readonly flags: number;
}

/** A method call that came in for a name of ours. */
export interface IncomingCall extends CallHeader {
  readonly body: readonly unknown[];
}

/** What a handler answers: the signature and body of the method return. */
export interface BusReply {
  readonly signature: string;
  readonly body: readonly unknown[];
}

/**
 * Answers incoming calls. Throw {@link BusErrorReply} for a D-Bus error of that name; anything else
 * thrown becomes `org.freedesktop.DBus.Error.Failed`.
 */
export type CallHandler = (call: IncomingCall) => Promise<BusReply>;

/**
 * Looks at a call before its body is read: the error that answers it, or undefined when the handler
 * is to answer.
 */
export type CallCheck = (call: CallHeader) => BusErrorReply | undefined;

/**
 * An error reply of D-Bus: the peer was reached and said no. `errorName` as
 * `org.freedesktop.systemd1.NoSuchUnit`.
 */
export class BusErrorReply extends Error {
  override readonly name = 'BusErrorReply';
  readonly errorName: string;

  constructor(errorName: string, message: string) {
    super(message);
    this.errorName = errorName;
  }
}
