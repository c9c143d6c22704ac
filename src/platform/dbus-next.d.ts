/** The parts of dbus-next that are imported one by one: the package's index also loads XML parsing, which costs memory and start-up time. */
declare module 'dbus-next/lib/connection.js' {
  import type { EventEmitter } from 'node:events';
  import type { Duplex } from 'node:stream';
  import type { Message } from 'dbus-next/lib/message-type.js';

  /** Emits `connect`, `message` (a {@link Message}), `error` and `end`; messages before `connect` are kept and sent then. */
  interface Connection extends EventEmitter {
    readonly stream: Duplex;
    message(message: Message): void;
  }
  function createConnection(options: { readonly busAddress: string }): Connection;
  export = createConnection;
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
  /** One message. `type`: 1 call, 2 return, 3 error, 4 signal. `flags` bit 0: no reply expected. */
  export class Message {
    readonly type: number;
    serial: number | null;
    readonly replySerial: number | undefined;
    readonly path: string;
    readonly interface: string;
    readonly member: string;
    readonly errorName: string;
    readonly sender: string;
    readonly signature: string;
    readonly body: unknown[];
    readonly flags: number;
    constructor(init: MessageInit);
    static newError(call: Message, errorName: string, text: string): Message;
    static newMethodReturn(call: Message, signature: string, body: unknown[]): Message;
  }
}

declare module 'dbus-next/lib/variant.js' {
  export class Variant {
    readonly signature: string;
    readonly value: unknown;
    constructor(signature: string, value: unknown);
  }
}
