import type { ServerResponse } from 'node:http';
import type { Digest } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { untilAborted } from '../../platform/async/abort.ts';
import { oneBuffer } from '../../platform/files/chunk-buffer.ts';
import type { LayerWriter } from '../../ports/blobs.ts';
import type { MeteredTransfer } from '../meter.ts';
import type { Offer } from '../offer.ts';
import { entityTagOf, isUnmodified, rangeInForce } from '../preconditions.ts';
import { parseRange } from '../range.ts';
import { respondError } from '../respond.ts';
import type { Route } from '../route.ts';
import { type TransferRange, transfer } from '../transfer.ts';
import { CLOSED, closeSignal, type Exchange, offered, type PullApi } from './exchange.ts';

/** Sends a blob, or the part of it that `Range` asks for. */
export async function sendBlob(
  api: PullApi,
  { repository, digest }: Extract<Route, { kind: 'blob' }>,
  offer: Offer,
  { request, response }: Exchange,
): Promise<void> {
  const signal = closeSignal(response);
  // A layer of an adopted bundle is offered even while its medium is unplugged: its transfer waits.
  const sizeBytes = offered(digest, offer) && ((await api.source.sizeOf(digest, signal)) ?? offer.layers.get(digest));
  if (sizeBytes === undefined) {
    api.meter.unknownRequested(repository, digest);
    const error = { code: 'BLOB_UNKNOWN', message: `blob ${digest} is not here`, detail: { digest } } as const;
    return respondError(response, 404, error);
  }
  response.setHeader('docker-content-digest', digest);
  response.setHeader('etag', entityTagOf(digest));
  if (isUnmodified(request.headers, digest)) return void response.writeHead(304).end();
  // RFC 9110, section 14.2: a Range counts for GET only.
  const header = request.method === 'GET' ? rangeInForce(request.headers, digest) : undefined;
  const range = parseRange(header, sizeBytes);
  response.setHeader('accept-ranges', 'bytes');
  if (range.kind === 'unsatisfiable') {
    response.writeHead(416, { 'content-range': `bytes */${sizeBytes}`, 'content-length': 0 }).end();
    return;
  }
  const firstByte = range.kind === 'part' ? range.first : 0;
  const lastByte = range.kind === 'part' ? range.last : sizeBytes - 1;
  if (range.kind === 'part') response.setHeader('content-range', `bytes ${firstByte}-${lastByte}/${sizeBytes}`);
  response.writeHead(range.kind === 'part' ? 206 : 200, {
    'content-type': 'application/octet-stream',
    'content-length': lastByte - firstByte + 1,
  });
  if (request.method === 'HEAD') response.end();
  else {
    const isWaitedFor = offer.waitsForAll !== false || offer.layers.has(digest);
    const graceMs = isWaitedFor ? api.graceMs : 0;
    await stream({ ...api, graceMs }, { digest, firstByte, lastByte, sizeBytes }, response, signal);
  }
}

/**
 * Sends at the speed of the client. When the source does not come back in time, the connection is
 * closed, so that the client sees a broken transfer.
 */
async function stream(
  api: PullApi,
  range: { digest: Digest; firstByte: number; lastByte: number; sizeBytes: number },
  response: ServerResponse,
  signal: AbortSignal,
) {
  const kept = await api.layers?.begin(range.digest, range.sizeBytes, range.firstByte, signal);
  const metered = api.meter.open(range.digest);
  let position = range.firstByte;
  let saved: Promise<void> | undefined;
  const send = async (chunk: Buffer) => {
    position += chunk.length;
    metered.sent(chunk.length, position);
    await flushed(chunk, response, metered, signal);
  };
  const turn = api.turns.begin();
  try {
    for await (const chunk of replayed(kept, range, signal)) await send(chunk);
    const rest = { ...range, firstByte: position };
    for await (const chunk of transfer(rest, { ...api, turn, onWait: metered.awaitsMedium }, signal)) {
      saved = kept?.write(chunk, signal);
      // Recorded before the runtime has the last byte: it may refuse the blob at once, and the
      // cause must be known by then, even if the disk is slow.
      if (kept?.isDamaged()) metered.damaged();
      await send(chunk);
      await saved;
    }
    response.end();
  } catch (error) {
    response.destroy();
    if (signal.aborted || error === CLOSED) return;
    const message = `Registry: ${range.digest} broke off: ${reasonOf(error)}`;
    api.log.warn({ digest: range.digest, err: error }, message);
  } finally {
    turn.end();
    // A chunk is kept even if the client did not get it.
    await saved;
    await kept?.close();
    metered.close();
  }
}

/**
 * The part of the range that an earlier, aborted transfer has kept. No medium is read for it again.
 */
async function* replayed(
  kept: LayerWriter | undefined,
  { firstByte, lastByte }: TransferRange,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  let position = firstByte;
  for await (const chunk of kept?.replay(signal, oneBuffer()) ?? []) {
    const wanted = chunk.subarray(0, lastByte - position + 1);
    position += wanted.length;
    yield wanted;
    if (position > lastByte) return;
  }
}

/**
 * Writes a chunk and waits until the kernel has it, because its buffer is used again afterwards.
 */
async function flushed(
  chunk: Buffer,
  response: ServerResponse,
  metered: MeteredTransfer,
  signal: AbortSignal,
): Promise<void> {
  const written = new Promise<void>((resolve, reject) => {
    response.write(chunk, (error) => (error ? reject(CLOSED) : resolve()));
  });
  metered.awaitsRuntime(1);
  try {
    await untilAborted(written, signal);
  } finally {
    metered.awaitsRuntime(-1);
  }
}
