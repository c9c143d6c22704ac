import type { ServerResponse } from 'node:http';
import type { Digest } from '../../domain/model/digest.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { oneBuffer } from '../../platform/files/chunk-buffer.ts';
import { CLOSED, closeSignal } from '../../platform/http/close-signal.ts';
import { sendContentHead } from '../../platform/http/content-head.ts';
import { writeFlushed } from '../../platform/http/write-flushed.ts';
import type { LayerWriter } from '../../ports/blobs.ts';
import type { MeteredTransfer } from '../meter.ts';
import type { Offer } from '../offer.ts';
import { respondError } from '../respond.ts';
import type { Route } from '../route.ts';
import { type TransferRange, transfer } from '../transfer.ts';
import { type Exchange, offered, type PullApi } from './exchange.ts';

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
  const body = sendContentHead(request, response, { version: digest, sizeBytes });
  if (body === undefined) return;
  const isWaitedFor = offer.waitsForAll !== false || offer.layers.has(digest);
  const graceMs = isWaitedFor ? api.graceMs : 0;
  await stream({ ...api, graceMs }, { digest, sizeBytes, ...body }, response, signal);
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

async function flushed(
  chunk: Buffer,
  response: ServerResponse,
  metered: MeteredTransfer,
  signal: AbortSignal,
): Promise<void> {
  metered.awaitsRuntime(1);
  try {
    await writeFlushed(response, chunk, signal);
  } finally {
    metered.awaitsRuntime(-1);
  }
}
