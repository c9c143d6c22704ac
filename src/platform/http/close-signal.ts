import type { ServerResponse } from 'node:http';

/**
 * One shared error: every response ends with an abort, and a new error each time would also record
 * a stack.
 */
export const CLOSED = new Error('the connection of the client is closed');

/** Aborts when the connection of the response closes, or at once when it is closed already. */
export function closeSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // The client may have closed the connection while it was being admitted, before there was a
  // listener.
  if (response.destroyed) controller.abort(CLOSED);
  else response.once('close', () => controller.abort(CLOSED));
  return controller.signal;
}
