import type { status } from '@grpc/grpc-js';

/**
 * An error that carries its gRPC code. Any other error becomes `UNKNOWN` with its message, as in a
 * Go server.
 */
export class CriError extends Error {
  readonly code: status;

  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}
