import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { withEither } from '../platform/async/abort.ts';
import type { Clock } from '../platform/clock.ts';
import { closeSignal } from '../platform/http/close-signal.ts';
import { entityTagOf, isUnmodified } from '../platform/http/preconditions.ts';
import type { Unsubscribe } from '../platform/subscription.ts';
import { wireLimits } from './limits.ts';

/** A JSON document that changes. */
export interface WatchedDocument {
  /** Its content now. */
  current(signal: AbortSignal): Promise<object>;
  /** Calls `listener` when it may have changed. */
  onChange(listener: () => void): Unsubscribe;
}

/**
 * Answers with a document and its `ETag`. With `If-None-Match` and `Prefer: wait=<seconds>` (RFC
 * 7240, section 4.3) the answer comes when the document changes, or is 304 after that time, at most
 * {@link wireLimits.longestWaitMs}.
 *
 * @throws whatever `current` throws; an abort when the client is gone
 */
export async function sendWatched(
  request: IncomingMessage,
  response: ServerResponse,
  { document, clock }: { readonly document: WatchedDocument; readonly clock: Clock },
): Promise<void> {
  const signal = closeSignal(response);
  const untilMs = clock.monotonic() + waitMs(request.headers);
  let changed = new AbortController();
  const unsubscribe = document.onChange(() => changed.abort());
  try {
    for (;;) {
      changed = new AbortController(); // before the look, so that a change during it ends the wait at once
      const body = JSON.stringify(await document.current(signal));
      const version = createHash('sha256').update(body).digest('base64url');
      if (!isUnmodified(request.headers, version)) return sendDocument(request, response, body, version);
      const leftMs = untilMs - clock.monotonic();
      if (leftMs <= 0) return void response.writeHead(304, { etag: entityTagOf(version) }).end();
      await waitFor(changed.signal, leftMs, clock, signal);
    }
  } finally {
    unsubscribe();
  }
}

function sendDocument(request: IncomingMessage, response: ServerResponse, body: string, version: string): void {
  response.writeHead(200, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-cache',
    etag: entityTagOf(version),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** How long the client wants to wait, in milliseconds; 0 without `If-None-Match`. */
function waitMs({ prefer, 'if-none-match': known }: IncomingHttpHeaders): number {
  if (known === undefined || prefer === undefined) return 0;
  const text = Array.isArray(prefer) ? prefer.join(',') : prefer;
  const [, seconds] = /(?:^|[,;])\s*wait\s*=\s*"?(\d{1,6})"?\s*(?:$|[,;])/i.exec(text) ?? [];
  return Math.min(wireLimits.longestWaitMs, Number(seconds ?? 0) * 1_000);
}

async function waitFor(changed: AbortSignal, ms: number, clock: Clock, signal: AbortSignal): Promise<void> {
  try {
    await withEither([signal, changed], (either) => clock.sleep(ms, either));
  } catch (error) {
    signal.throwIfAborted();
    if (!changed.aborted) throw error;
  }
}
