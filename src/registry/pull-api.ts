import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Digest, isDigest } from '../domain/model/digest.ts';
import { reasonOf } from '../platform/app-error.ts';
import { untilAborted } from '../platform/async/abort.ts';
import { oneBuffer } from '../platform/files/chunk-buffer.ts';
import type { Log } from '../platform/log.ts';
import type { LayerStore, LayerWriter } from '../ports/blobs.ts';
import { readManifest } from './manifest.ts';
import type { MeteredTransfer, RecordingMeter } from './meter.ts';
import { type Offer, pageOfTags, referrersIndex } from './offer.ts';
import { entityTagOf, isAccepted, isUnmodified, rangeInForce } from './preconditions.ts';
import { parseRange } from './range.ts';
import { createReadTurns } from './read-turns.ts';
import { respondError, respondJson } from './respond.ts';
import { basePath, parseRoute, queryOf, type Route } from './route.ts';
import { type TransferDependencies, type TransferRange, transfer } from './transfer.ts';

/** What the pull API is made of. */
export interface PullApiOptions extends Omit<TransferDependencies, 'onWait' | 'turn'> {
  /** 32 hex digits that every path but the ping carries, or undefined. */
  readonly token: string | undefined;
  /**
   * What is offered under a repository's path; `namespace` is the registry that containerd says it stands in for (`?ns=quay.io`).
   */
  readonly find: (path: string, namespace: string | undefined) => Offer | undefined;
  readonly meter: RecordingMeter;
  readonly log: Log;
  /** Where layers are kept while they pass by; default none are. */
  readonly layers?: Pick<LayerStore, 'begin'>;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Answers GET and HEAD requests as the OCI distribution-spec 1.1 has it (pull, tags, referrers). */
export function createPullApi(options: PullApiOptions): (exchange: Exchange) => Promise<void> {
  const { source, meter } = options;
  const turns = createReadTurns(options.clock);

  async function answer(exchange: Exchange): Promise<void> {
    const { url = '' } = exchange.request;
    const route = parseRoute(url, options.token);
    if (route.kind === 'ping') return respondJson(exchange.response, 200, {});
    if (route.kind === 'refused') {
      const { status, code, message } = route;
      return respondError(exchange.response, status, { code, message });
    }
    const namespace = queryOf(url).get('ns') ?? undefined;
    const offer = route.kind === 'unknown' ? undefined : options.find(route.repository, namespace);
    if (route.kind === 'unknown' || offer === undefined) {
      const detail = route.kind === 'unknown' ? {} : { detail: { name: route.repository } };
      const error = { code: 'NAME_UNKNOWN', message: 'nothing is offered under this name', ...detail } as const;
      return respondError(exchange.response, 404, error);
    }
    await answerRoute(route, offer, exchange);
  }

  async function answerRoute(
    route: Exclude<Route, { kind: 'ping' | 'refused' | 'unknown' }>,
    offer: Offer,
    exchange: Exchange,
  ) {
    switch (route.kind) {
      case 'blob':
        return sendBlob(route, offer, exchange);
      case 'tags':
        return sendTags(route.repository, offer, exchange);
      case 'referrers':
        return sendReferrers(route.digest, offer, exchange);
      case 'manifest': {
        const { reference, repository } = route;
        const digest = isDigest(reference)
          ? reference
          : (offer.tags.get(reference) ?? offer.referrersTags?.get(reference));
        const isWithheld = digest !== undefined && offer.withheld?.has(digest);
        try {
          return await sendManifest(route, isWithheld ? undefined : offered(digest, offer), exchange);
        } finally {
          // Last: who waits for this request may begin a pull at once, to which it must not be added as one for something unknown.
          meter.manifestRequested(repository, reference);
        }
      }
    }
  }

  async function sendManifest(
    { repository, reference }: Extract<Route, { kind: 'manifest' }>,
    digest: Digest | undefined,
    { request, response }: Exchange,
  ): Promise<void> {
    const unknown = (message: string) =>
      respondError(response, 404, { code: 'MANIFEST_UNKNOWN', message, detail: { reference } });
    const manifest = digest && (await readManifest(source, digest, closeSignal(response)));
    if (digest === undefined || manifest === undefined) {
      // By digest only: tags are also asked for to look whether there are signatures.
      if (isDigest(reference)) meter.unknownRequested(repository, reference);
      return unknown(`manifest ${reference} is not here`);
    }
    if (!isAccepted(request.headers, manifest.mediaType)) {
      return unknown(`manifest ${reference} is ${manifest.mediaType}, which the request does not accept`);
    }
    response.setHeader('docker-content-digest', digest);
    response.setHeader('etag', entityTagOf(digest));
    if (isUnmodified(request.headers, digest)) return void response.writeHead(304).end();
    response.writeHead(200, { 'content-type': manifest.mediaType, 'content-length': manifest.bytes.length });
    response.end(request.method === 'HEAD' ? undefined : manifest.bytes);
  }

  async function sendBlob(
    { repository, digest }: Extract<Route, { kind: 'blob' }>,
    offer: Offer,
    { request, response }: Exchange,
  ): Promise<void> {
    const signal = closeSignal(response);
    // A layer of an adopted bundle whose medium was just pulled is promised all the same: its transfer waits.
    const sizeBytes = offered(digest, offer) && ((await source.sizeOf(digest, signal)) ?? offer.layers.get(digest));
    if (sizeBytes === undefined) {
      meter.unknownRequested(repository, digest);
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
    else await stream({ digest, firstByte, lastByte, sizeBytes }, response, signal);
  }

  function sendTags(repository: string, offer: Offer, { request, response }: Exchange): void {
    const query = queryOf(request.url ?? '');
    const n = query.get('n') ?? undefined;
    if (n !== undefined && !/^\d{1,9}$/.test(n)) {
      const error = { code: 'UNSUPPORTED', message: 'n must be a whole number', detail: { n } } as const;
      respondError(response, 400, error);
      return;
    }
    const { tags, last } = pageOfTags(
      offer.tags.keys(),
      n === undefined ? undefined : Number(n),
      query.get('last') ?? undefined,
    );
    const ns = query.get('ns');
    const rest = ns === null ? '' : `&ns=${encodeURIComponent(ns)}`;
    const next = `${basePath(options.token)}${repository}/tags/list?n=${n}&last=${last}${rest}`;
    respondJson(response, 200, { name: repository, tags }, last === undefined ? {} : { link: `<${next}>; rel="next"` });
  }

  function sendReferrers(digest: Digest, offer: Offer, { request, response }: Exchange): void {
    if (offer.referrers === undefined) {
      // Clients take this as the sign to look for the referrers tag (distribution-spec 1.1, "Unavailable Referrers API").
      respondError(response, 404, { code: 'UNSUPPORTED', message: 'referrers are not known here' });
      return;
    }
    const artifactType = queryOf(request.url ?? '').get('artifactType') ?? undefined;
    const index = referrersIndex(offer.referrers.get(digest) ?? [], artifactType);
    respondJson(response, 200, index, {
      'content-type': index.mediaType,
      ...(artifactType !== undefined && { 'oci-filters-applied': 'artifactType' }),
    });
  }

  /** Sends at the pace of the client. A source that is gone for good ends the connection, so that the client sees a broken transfer. */
  async function stream(
    range: { digest: Digest; firstByte: number; lastByte: number; sizeBytes: number },
    response: ServerResponse,
    signal: AbortSignal,
  ) {
    const kept = await options.layers?.begin(range.digest, range.sizeBytes, range.firstByte);
    const metered = meter.open(range.digest);
    let position = range.firstByte;
    let saved: Promise<void> | undefined;
    const send = async (chunk: Buffer) => {
      position += chunk.length;
      metered.sent(chunk.length, position);
      await flushed(chunk, response, metered, signal);
    };
    const turn = turns.begin();
    try {
      for await (const chunk of replayed(kept, range, signal)) await send(chunk);
      const rest = { ...range, firstByte: position };
      for await (const chunk of transfer(rest, { ...options, turn, onWait: metered.awaitsMedium }, signal)) {
        saved = kept?.write(chunk);
        // Noted before the runtime has the last byte: it refuses the blob at once, and why is looked up then, however long the disk takes.
        if (kept?.isDamaged()) metered.damaged();
        await send(chunk);
        await saved;
      }
      response.end();
    } catch (error) {
      response.destroy();
      if (signal.aborted || error === CLOSED) return;
      const message = `Registry: ${range.digest} broke off: ${reasonOf(error)}`;
      options.log.warn({ digest: range.digest, err: error }, message);
    } finally {
      turn.end();
      // A chunk that the client did not get is kept all the same.
      await saved;
      await kept?.close();
      metered.close();
    }
  }

  return answer;
}

/** What of the range was kept before, when the client broke off: no medium is read for it twice. */
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

/** Writes a chunk and waits until the kernel has it: then its buffer is read into again. */
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

function offered(digest: Digest | undefined, { digests }: Offer): Digest | undefined {
  return digest === undefined || digests === undefined || digests.has(digest) ? digest : undefined;
}

/** One for all: without it each abort makes an error of its own, with the stack, and every response ends with one. */
const CLOSED = new Error('the connection to the runtime is closed');

/** Aborts when the response's connection closes, whether it was finished or not; at once when it is closed already. */
function closeSignal(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  // A client that left while it was being admitted closed it before anybody listened.
  if (response.destroyed) controller.abort(CLOSED);
  else response.once('close', () => controller.abort(CLOSED));
  return controller.signal;
}
