import type { ServerResponse } from 'node:http';
import * as v from 'valibot';
import type { QueuePlace } from '../domain/model/reason.ts';
import { AppError } from '../platform/app-error.ts';
import { respondJson } from '../platform/http.ts';
import { wireLimits } from './documents.ts';

export type OffersErrorCode =
  /** The node serves its maximum of others (`wait`). */
  | 'offers/busy'
  /** The answer is not of this form (`reject`). */
  | 'offers/answer'
  /** It answers, but its read failed (`retry`). */
  | 'offers/failed'
  /** It does not answer in time (`retry`). */
  | 'offers/unreachable'
  | 'offers/listen';

/** From a node that serves its maximum of others. */
export interface Busy {
  readonly queue?: QueuePlace;
  /** In milliseconds from the answer. */
  readonly retryMs: number;
}

/** Its cause is the {@link Busy} of `who`. */
export function busyError(who: string, busy: Busy): AppError<OffersErrorCode> {
  const { queue } = busy;
  const place = queue === undefined ? '' : `: place ${queue.place} of ${queue.waiting}`;
  return new AppError({
    code: 'offers/busy',
    message: `${who} serves as many other nodes as it may${place}`,
    disposition: 'wait',
    cause: busy,
  });
}

/** Undefined for any other error. */
export function busyOf(error: unknown): Busy | undefined {
  if (!(error instanceof AppError) || error.code !== 'offers/busy') return undefined;
  return error.cause as Busy;
}

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const queueSchema = v.object({ place: count, waiting: count, waitMs: v.optional(count), mostMs: v.optional(count) });

/** `Retry-After` is in whole seconds (RFC 9110, section 10.2.3). */
export function respondBusy(response: ServerResponse, { queue, retryMs }: Busy): void {
  const body = queue ?? { error: 'this node serves as many others as it may' };
  respondJson(response, 503, body, { 'retry-after': String(Math.max(1, Math.ceil(retryMs / 1_000))) });
}

/** What can't be read counts as absent. */
export function parseBusy(retryAfter: string | undefined, body: string): Busy {
  const seconds = retryAfter !== undefined && /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : undefined;
  const retryMs = seconds === undefined ? wireLimits.retryMs : Math.max(1, seconds) * 1_000;
  const queue = v.safeParse(queueSchema, parsed(body));
  return queue.success ? { queue: place(queue.output), retryMs } : { retryMs };
}

function place({ waitMs, mostMs, ...rest }: v.InferOutput<typeof queueSchema>): QueuePlace {
  return { ...rest, ...(waitMs !== undefined && { waitMs }), ...(mostMs !== undefined && { mostMs }) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
