import type { IncomingMessage, ServerResponse } from 'node:http';
import { closeSignal } from '../../platform/http/close-signal.ts';
import { writeFlushed } from '../../platform/http/write-flushed.ts';
import { createBufferSweep } from '../../platform/sweep-buffers.ts';
import { streamBody, wasCut } from '../client/read-body.ts';
import type { WireConnection } from '../client/wire-connection.ts';
import { wireLimits } from '../limits.ts';

/** What {@link relay} reports. */
export interface RelayOptions {
  /** Called with the head of the answer. */
  readonly onHead?: (answer: IncomingMessage) => void;
  /** Called with the length of each part of the body, before it is sent on. May wait. */
  readonly onBytes?: (count: number) => void | Promise<void>;
}

/** Of all requests of this process together. */
const sweep = createBufferSweep();

const ASKED = ['range', 'if-range', 'if-none-match', 'prefer'] as const;
const ANSWERED = ['content-type', 'content-length', 'content-range', 'accept-ranges', 'etag', 'retry-after'] as const;

/**
 * Passes a request of the wire form on to another server, and its answer back, at the pace of the
 * slower one. Only headers of the wire form are passed on.
 *
 * @param path the path at the other server
 * @throws as {@link WireConnection.open}, before the head is sent; once it is, as `streamBody`.
 *   `response` is cut already when the answer was, which need not be a fault of the other server:
 *   whoever asked learns that when it asks for the rest
 */
export async function relay(
  request: IncomingMessage,
  response: ServerResponse,
  to: { readonly connection: WireConnection; readonly path: string },
  { onHead, onBytes }: RelayOptions = {},
): Promise<void> {
  const signal = closeSignal(response);
  const headers = Object.fromEntries(
    ASKED.flatMap((name) => (name in request.headers ? [[name, request.headers[name]]] : [])),
  );
  const method = request.method === 'HEAD' ? 'HEAD' : 'GET';
  const waitMs = 'prefer' in headers ? wireLimits.longestWaitMs : 0;
  const answer = await to.connection.open({ path: to.path, method, headers, waitMs }, signal);
  try {
    onHead?.(answer);
    const passed = ANSWERED.flatMap((name) =>
      answer.headers[name] === undefined ? [] : [[name, answer.headers[name]]],
    );
    response.writeHead(answer.statusCode ?? 502, Object.fromEntries(passed));
    response.setTimeout(wireLimits.clientStallMs, () => response.destroy());
    for await (const chunk of streamBody(answer, to.connection, signal)) {
      sweep(chunk.length);
      await onBytes?.(chunk.length);
      await writeFlushed(response, chunk, signal);
    }
    response.end();
  } catch (error) {
    if (wasCut(error)) response.destroy();
    throw error;
  } finally {
    if (!answer.complete) answer.destroy();
  }
}
