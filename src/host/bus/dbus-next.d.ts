/**
 * The parts of dbus-next that are imported one by one: the package's index also loads XML parsing,
 * which costs memory and start-up time.
 */
declare module 'dbus-next/lib/dbus-buffer.js' {
  /**
   * Reads values from the body of a message, in the form of the marshaller. `endian` is the first
   * byte of the message.
   */
  class DBusBuffer {
    constructor(bytes: Buffer, startPos: number, endian: number, fds: undefined, options: object);
    protected readonly buffer: Buffer;
    /** The offset of the next value. */
    protected pos: number;
    read(signature: string): unknown[];
    /** Reads one value of a parsed type; calls itself for what is in it. */
    protected readTree(tree: object): unknown;
  }
  export = DBusBuffer;
}

declare module 'dbus-next/lib/marshall-compat.js' {
  import type { Message } from 'dbus-next/lib/message-type.js';

  /**
   * The bytes of a message, and its file descriptors. Modifies `message`. @throws Error when the
   * body does not fit the signature
   */
  export function marshallMessage(message: Message): [bytes: Buffer, fds: unknown[]];
  /** Turns a body from the form of the marshaller into plain values, in place. */
  export function messageToJsFmt(message: { signature: string; body: unknown[] }): { body: unknown[] };
}

declare module 'dbus-next/lib/message.js' {
  /**
   * `marshallMessage` for fields and a body in the form of the marshaller. Without a body, its
   * bytes can follow.
   */
  export function marshall(message: object): [bytes: Buffer, fds: unknown[]];
}

declare module 'dbus-next/lib/message-type.js' {
  interface MessageInit {
    readonly type?: number;
    readonly path?: string;
    readonly interface?: string;
    readonly member?: string;
    readonly destination?: string;
    readonly signature?: string;
    readonly body?: unknown[];
  }
  /** The fields of a call that its answer needs. */
  interface Answered {
    readonly serial: number;
    readonly sender: string;
  }
  /** One message to send. `type`: 1 call, 2 return, 3 error, 4 signal. */
  export class Message {
    serial: number | null;
    constructor(init: MessageInit);
    /** @throws Error when the sender of the call or the name of the error is not valid */
    static newError(call: Answered, errorName: string, text: string): Message;
    static newMethodReturn(call: Answered, signature: string, body: unknown[]): Message;
  }
}

declare module 'dbus-next/lib/variant.js' {
  export class Variant {
    readonly signature: string;
    readonly value: unknown;
    constructor(signature: string, value: unknown);
  }
}
