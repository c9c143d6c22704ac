import type { ClientRequest, IncomingMessage } from 'node:http';

/**
 * The answer to a request, or the error that ends it. It settles whatever the server sends, and as
 * soon as `signal` aborts: Node.js tells no error of a request after the protocol was switched.
 */
export function responseTo(request: ClientRequest, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const onAbort = () => fail(signal.reason);
    const settle = () => signal.removeEventListener('abort', onAbort);
    const fail = (error: unknown) => {
      settle();
      reject(error);
      request.destroy();
    };
    request.on('error', fail);
    request.once('response', (response) => {
      settle();
      resolve(response);
    });
    request.once('upgrade', (_response, socket) => {
      socket.destroy();
      fail(new Error('it switches to another protocol'));
    });
    request.once('close', () => fail(new Error('the connection was closed')));
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
}
