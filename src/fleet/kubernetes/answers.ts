import type { IncomingHttpHeaders } from 'node:http';
import * as v from 'valibot';
import { clip, oneLine } from '../../platform/plain-text.ts';
import { type KubernetesError, type KubernetesErrorCode, kubernetesError } from './api-error.ts';
import type { ApiRequest } from './api-request.ts';

/** `Status` (meta/v1), as far as it is read. */
const status = v.object({
  kind: v.literal('Status'),
  message: v.optional(v.string(), ''),
  code: v.optional(v.number()),
  details: v.optional(v.object({ retryAfterSeconds: v.optional(v.number()) })),
});

const MESSAGE_CHARACTERS = 400;
const LONGEST_WAIT_S = 3_600;

/** The error for a refused request. @param answer its body, parsed, if it is JSON */
export function refusalOf(
  request: Pick<ApiRequest, 'method' | 'path'>,
  code: number,
  headers: IncomingHttpHeaders,
  answer: unknown,
): KubernetesError {
  const { message, details } = readStatus(answer);
  const seconds = Number(headers['retry-after'] ?? details?.retryAfterSeconds ?? Number.NaN);
  const isUsable = Number.isFinite(seconds) && seconds >= 0;
  const why = message === '' ? '' : `: ${clip(oneLine(message), MESSAGE_CHARACTERS)}`;
  return kubernetesError(codeOf(code), `${request.method} ${request.path} was refused with status ${code}${why}`, {
    ...(isUsable && { retryAfterMs: Math.min(seconds, LONGEST_WAIT_S) * 1_000 }),
  });
}

/**
 * "RequestWatchProgress is disabled": an old etcd has no bookmarks. Nothing but the text of the
 * `Status` tells that.
 */
const NO_BOOKMARKS = 'RequestWatchProgress';

/** The error for an event `ERROR` of a watch, whose object is a `Status`. */
export function watchErrorOf(path: string, object: unknown): KubernetesError {
  const { message, code = 500 } = readStatus(object);
  const text = `the watch of ${path} ended with status ${code}: ${clip(oneLine(message), MESSAGE_CHARACTERS)}`;
  return kubernetesError(message.includes(NO_BOOKMARKS) ? 'kubernetes/no-bookmarks' : codeOf(code), text);
}

function readStatus(answer: unknown): Partial<v.InferOutput<typeof status>> & { readonly message: string } {
  const result = v.safeParse(status, answer);
  return result.success ? result.output : { message: '' };
}

function codeOf(code: number): KubernetesErrorCode {
  switch (code) {
    case 401:
      return 'kubernetes/unauthorized';
    case 403:
      return 'kubernetes/forbidden';
    case 404:
      return 'kubernetes/not-found';
    case 409:
      return 'kubernetes/conflict';
    case 410:
      return 'kubernetes/gone';
    case 429:
    case 503:
      return 'kubernetes/busy';
    default:
      return code >= 500 ? 'kubernetes/answer' : 'kubernetes/refused';
  }
}
