/** The part of unix-dgram (2.0) that is used: a connected sender and, in tests, a bound receiver. Its callbacks are synchronous. */
declare module 'unix-dgram' {
  import type { EventEmitter } from 'node:events';

  export interface Socket extends EventEmitter {
    bind(path: string): void;
    connect(path: string): void;
    /** On a connected socket. The error's `code` is a negative errno, or 1 when the receiver's queue is full: `writable` follows. */
    send(datagram: Buffer, callback: (error?: Error & { readonly code: number }) => void): void;
    close(): void;
  }
  export function createSocket(type: 'unix_dgram', listener?: (datagram: Buffer) => void): Socket;
}
