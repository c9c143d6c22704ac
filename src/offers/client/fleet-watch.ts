import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { FleetView } from '../../domain/fleet/node-status.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withEither } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import { closeSignal, entityTagOf, isUnmodified } from '../../platform/http.ts';
import type { Log } from '../../platform/log.ts';
import { type Listeners, listen, notifyAll, type Unsubscribe } from '../../platform/subscription.ts';
import type { FleetPort } from '../../ports/fleet.ts';
import { wireLimits } from '../documents.ts';
import type { OffersClient } from './client.ts';

interface FleetWatchOptions {
  /** Of `peers.sock`. */
  readonly client: Pick<OffersClient, 'fleet'>;
  readonly clock: Clock;
  readonly log: Log;
}

interface FleetWatch extends FleetPort {
  /** Never throws. */
  run(signal: AbortSignal): Promise<void>;
}

/** Long poll in milliseconds. */
const WAIT_MS = 30_000;
/** Failures in a row before a log line: it may start later than the daemon. */
const LOGGED_AFTER = 4;
/** Between two answers. */
const LEAST_PAUSE_MS = 200;
/** Pauses after failures. */
const PAUSES_MS = [500, 1_000, 2_000, 5_000, 15_000, 30_000] as const;

/**
 * Follows `/v1/fleet`. While it does not answer, no other node is known; the journal says so once.
 */
export function createFleetWatch({ client, clock, log }: FleetWatchOptions): FleetWatch {
  const listeners: Listeners = new Set();
  let view: FleetView | undefined;
  let etag: string | undefined;
  let failures = 0;

  const lose = (error: unknown) => {
    failures += 1;
    if (failures === LOGGED_AFTER) {
      log.warn(
        { err: error },
        `${reasonOf(error)}; nothing comes from other nodes, see systemctl status stickpin-fleet`,
      );
    }
    const wasKnown = view !== undefined;
    [view, etag] = [undefined, undefined];
    if (wasKnown) notifyAll(listeners);
  };
  const look = async (signal: AbortSignal) => {
    const next = await client.fleet({ etag, waitMs: WAIT_MS }, signal);
    if (failures >= LOGGED_AFTER) log.info({}, 'The fleet process answers');
    failures = 0;
    if (next === undefined) return;
    const { version: _version, ...document } = next.document;
    [view, etag] = [document, next.etag];
    notifyAll(listeners);
  };
  return {
    view: () => view,
    onChange: (listener) => listen(listeners, listener),
    run: async (signal) => {
      while (!signal.aborted) {
        try {
          await look(signal);
          await clock.sleep(LEAST_PAUSE_MS, signal);
        } catch (error) {
          if (signal.aborted) return;
          lose(error);
          const pauseMs = PAUSES_MS[Math.min(failures, PAUSES_MS.length) - 1] ?? 0;
          await clock.sleep(pauseMs, signal).catch(() => undefined);
        }
      }
    },
  };
}

export interface WatchedDocument {
  current(signal: AbortSignal): Promise<object>;
  /** Called when it may have changed. */
  onChange(listener: () => void): Unsubscribe;
}

/**
 * Answers with a document and its `ETag`. With `If-None-Match` and `Prefer: wait=<seconds>` (RFC
 * 7240, section 4.3) the answer waits for a change, or is 304 after that time, at most {@link
 * wireLimits.longestWaitMs}.
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

/** In milliseconds; 0 without `If-None-Match`. */
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
