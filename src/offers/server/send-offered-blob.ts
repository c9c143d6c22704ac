import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Digest } from '../../domain/model/digest.ts';
import { AppError } from '../../platform/app-error.ts';
import { oneBuffer } from '../../platform/files/chunk-buffer.ts';
import { closeSignal } from '../../platform/http/close-signal.ts';
import { sendContentHead } from '../../platform/http/content-head.ts';
import { isUnmodified, rangeInForce } from '../../platform/http/preconditions.ts';
import { parseRange } from '../../platform/http/range.ts';
import { respondJson } from '../../platform/http/respond-json.ts';
import { writeFlushed } from '../../platform/http/write-flushed.ts';
import type { BlobSource } from '../../ports/blobs.ts';
import { wireLimits } from '../limits.ts';

/**
 * Sends a blob, or the part that `Range` asks for. Nothing of a blob that can't be read is sent, as
 * long as its first bytes fail: the client gets an error instead of a connection that breaks.
 *
 * @throws what the source throws; `media/read` (`retry`) for a blob that is shorter than its size
 */
export async function sendOfferedBlob(
  request: IncomingMessage,
  response: ServerResponse,
  { digest, source }: { readonly digest: Digest; readonly source: BlobSource },
): Promise<void> {
  const signal = closeSignal(response);
  const sizeBytes = await source.sizeOf(digest, signal);
  if (sizeBytes === undefined) return respondJson(response, 404, { error: `blob ${digest} is not offered here` });
  const begin = firstByteOf(request, { digest, sizeBytes });
  const chunks = begin === undefined ? undefined : source.read(digest, begin, signal, oneBuffer());
  const reading = chunks?.[Symbol.asyncIterator]();
  try {
    const first = await reading?.next();
    const body = sendContentHead(request, response, { version: digest, sizeBytes });
    if (body === undefined) return;
    // A client that takes nothing must not keep its turn.
    response.setTimeout(wireLimits.clientStallMs, () => response.destroy());
    let position = body.firstByte;
    for (let next = first; next !== undefined && next.done !== true; next = await reading?.next()) {
      const wanted = next.value.subarray(0, body.lastByte - position + 1);
      await writeFlushed(response, wanted, signal);
      position += wanted.length;
      if (position > body.lastByte) break;
    }
    if (position <= body.lastByte) throw shortBlob(digest, position);
    response.end();
  } finally {
    await reading?.return?.();
  }
}

/** Where a body begins; undefined when the answer has none. */
function firstByteOf(
  request: IncomingMessage,
  { digest, sizeBytes }: { readonly digest: Digest; readonly sizeBytes: number },
): number | undefined {
  if (request.method === 'HEAD' || sizeBytes === 0 || isUnmodified(request.headers, digest)) return undefined;
  const range = parseRange(rangeInForce(request.headers, digest), sizeBytes);
  if (range.kind === 'unsatisfiable') return undefined;
  return range.kind === 'part' ? range.first : 0;
}

function shortBlob(digest: Digest, position: number): AppError {
  return new AppError({
    code: 'media/read',
    message: `${digest} ended after ${position} bytes, before its full size`,
    disposition: 'retry',
  });
}
