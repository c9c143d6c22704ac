/** `body` matches `signature` (D-Bus specification, "Type System"); both default to empty. */
export interface BusCall {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly unknown[];
}

/** `sender` is a unique name. */
export interface BusSignal {
  readonly sender: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly body: readonly unknown[];
}

export interface OutgoingSignal {
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature: string;
  readonly body: readonly unknown[];
}

export type SignalHeader = Omit<BusSignal, 'body'>;

/** Before the body is read. `interface` is empty when the caller gave none. */
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

export interface IncomingCall extends CallHeader {
  readonly body: readonly unknown[];
}

/** Nobody gets the answer. */
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

/** Before the body is read. @returns the error to answer with, or undefined to call the handler */
export type CallCheck = (call: CallHeader) => BusErrorReply | undefined;

/** `errorName` is for example `org.freedesktop.systemd1.NoSuchUnit`. */
export class BusErrorReply extends Error {
  override readonly name = 'BusErrorReply';
  readonly errorName: string;

  constructor(errorName: string, message: string) {
    super(message);
    this.errorName = errorName;
  }
}
