import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ImageDocument, mediaTypes } from '../bundle/format/oci-schema.ts';
import { type Client, clientOf, type Extent, manifestAnswer } from '../domain/decide/decision.ts';
import { type Digest, isDigest } from '../domain/model/digest.ts';
import { AppError, assertNever, reasonOf } from '../platform/app-error.ts';
import { withDeadline } from '../platform/async/abort.ts';
import { oneBuffer } from '../platform/files/file-access.ts';
import {
  CLOSED,
  closeSignal,
  entityTagOf,
  isAccepted,
  isUnmodified,
  respondJson,
  sendContentHead,
  writeFlushed,
} from '../platform/http.ts';
import type { Log } from '../platform/log.ts';
import type { BlobSource, LayerCopies, LayerWriter } from '../ports/blobs.ts';
import { type Offer, pageOfTags, readManifest, referrersIndex } from './blob-union.ts';
import type { MeteredTransfer, RecordingMeter } from './meter.ts';
import type { OfferedProbes } from './probes.ts';
import type { ReadTurns } from './read-turns.ts';
import { basePath, queryOf, type Route, respondError } from './route.ts';
import { type TransferDependencies, type TransferRange, transfer } from './transfer.ts';

export interface PullApiOptions extends Omit<TransferDependencies, 'onWait' | 'turn'> {
  /** 32 hex digits that every path except the ping must have, or undefined. */
  readonly token: string | undefined;
  /**
   * Finds the offer of a repository path. `namespace` is the original registry, which containerd
   * sends as `?ns=quay.io`.
   */
  readonly find: (path: string, namespace: string | undefined) => Offer | undefined;
  /**
   * Aborts when the offers are known for the first time. Requests that come before wait for it.
   * Undefined: they are known.
   */
  readonly firstOffers?: AbortSignal;
  readonly meter: RecordingMeter;
  readonly log: Log;
  /** Manifests of probes. Default none. */
  readonly probes?: Pick<OfferedProbes, 'manifest' | 'isConfig'>;
  /**
   * Whether the runtime has the image of this reference at this moment. It is asked anew for each
   * request. Default: never.
   */
  readonly isHeld?: (reference: string, signal: AbortSignal) => Promise<boolean>;
  /** The store for layers, which are kept during their transfer. Default none. */
  readonly layers?: Pick<LayerCopies, 'begin'>;
}

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export interface PullApi extends PullApiOptions {
  readonly turns: ReadTurns;
  /** The manifests that each index names, as far as they were asked for. */
  readonly indexes: Map<Digest, ReadonlySet<Digest>>;
}

/** The digest, or undefined when the offer does not include it. */
export function offered(digest: Digest | undefined, { digests }: Offer): Digest | undefined {
  return digest === undefined || digests === undefined || digests.has(digest) ? digest : undefined;
}

export interface AskedManifest {
  readonly digest: Digest;
  /** Undefined when its bytes are damaged. */
  readonly document: ImageDocument | undefined;
  readonly offer: Offer;
  readonly client: Client;
}

/**
 * How long the runtime may take to say whether it has an image. After a start of the daemon the
 * runtime is asked before the daemon has reached it, and it is asked again until then.
 */
const HELD_MS = 15_000;
const ASK_AGAIN_MS = 250;

/**
 * Whether the client may begin a pull with this manifest, see `manifestAnswer`. The runtime is
 * asked only where the answer depends on it, and each time: an image may have been removed just
 * now.
 *
 * @throws AppError as {@link BlobSource.read} does; whatever aborted `signal`
 */
export async function mayBegin(api: PullApi, asked: AskedManifest, signal: AbortSignal): Promise<boolean> {
  const { digest, document, offer, client } = asked;
  const { images } = offer;
  if (images === undefined) return true;
  const root = (await rootOf(api, digest, images.references, signal)) ?? digest;
  const isArriving = images.arriving.has(root);
  const extent = document === undefined ? 'partial' : await extentOf(document, api.source, signal);
  const answer = manifestAnswer({ client, isArriving, extent });
  switch (answer) {
    case 'send':
      return true;
    case 'withhold':
      return false;
    case 'send-if-held': {
      const reference = images.references.get(root);
      return reference !== undefined && (await isHeld(api, reference, signal));
    }
    default:
      return assertNever(answer);
  }
}

/**
 * A runtime that does not say in time that it has the image counts as one that has not. So does one
 * that answers with an error, at once: it answers the same again, as CRI-O does that lost a layer.
 */
async function isHeld(api: PullApi, reference: string, signal: AbortSignal): Promise<boolean> {
  const { isHeld: ask } = api;
  if (ask === undefined) return false;
  const askUntilAnswered = async (inner: AbortSignal): Promise<boolean> => {
    for (;;) {
      try {
        return await ask(reference, inner);
      } catch (error) {
        inner.throwIfAborted();
        if (!(error instanceof AppError) || error.code !== 'runtime/unreachable') return false;
        await api.clock.sleep(ASK_AGAIN_MS, inner);
      }
    }
  };
  try {
    return await withDeadline('the container runtime', HELD_MS, signal, askUntilAnswered);
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

/** The image that a manifest belongs to: itself, or the index that names it. */
async function rootOf(
  api: PullApi,
  digest: Digest,
  references: ReadonlyMap<Digest, string>,
  signal: AbortSignal,
): Promise<Digest | undefined> {
  if (references.has(digest)) return digest;
  for (const root of references.keys()) {
    if ((await manifestsOf(api, root, signal)).has(digest)) return root;
  }
  return undefined;
}

/** The manifests that an index names. None for an image without one. */
async function manifestsOf(api: PullApi, root: Digest, signal: AbortSignal): Promise<ReadonlySet<Digest>> {
  const known = api.indexes.get(root);
  if (known !== undefined) return known;
  const document = (await readManifest(api.source, root, signal))?.document;
  if (document === undefined) return new Set();
  const named = new Set(document.kind === 'index' ? document.manifests.map(({ digest }) => digest) : []);
  api.indexes.set(root, named);
  return named;
}

/** How much of an image the sources have. Of an index only the manifests count that are here. */
async function extentOf(document: ImageDocument, source: BlobSource, signal: AbortSignal): Promise<Extent> {
  if (document.kind === 'manifest') {
    const has = async (digest: Digest) => (await source.sizeOf(digest, signal)) !== undefined;
    if (!(await has(document.config.digest))) return 'partial';
    for (const { digest } of document.layers) if (!(await has(digest))) return 'documents';
    return 'whole';
  }
  const extents: Extent[] = [];
  for (const { digest } of document.manifests) {
    const below = (await readManifest(source, digest, signal))?.document;
    if (below !== undefined) extents.push(await extentOf(below, source, signal));
  }
  if (extents.length === 0 || extents.includes('partial')) return 'partial';
  return extents.includes('documents') ? 'documents' : 'whole';
}

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

export function sendTags({ token }: PullApi, repository: string, offer: Offer, { request, response }: Exchange): void {
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
  const next = `${basePath(token)}${repository}/tags/list?n=${n}&last=${last}${rest}`;
  respondJson(response, 200, { name: repository, tags }, last === undefined ? {} : { link: `<${next}>; rel="next"` });
}

/** Sends the index of the referrers of `digest`, which is empty when none is known. */
export function sendReferrers(digest: Digest, offer: Offer, { request, response }: Exchange): void {
  const artifactType = queryOf(request.url ?? '').get('artifactType') ?? undefined;
  const index = referrersIndex(offer.referrers?.get(digest) ?? [], artifactType);
  respondJson(response, 200, index, {
    'content-type': index.mediaType,
    ...(artifactType !== undefined && { 'oci-filters-applied': 'artifactType' }),
  });
}

interface Wanted {
  readonly offer: Offer;
  readonly digest: Digest | undefined;
}

/**
 * Sends the manifest with this digest. 404 when it is undefined, no source has it, or the client is
 * to ask another registry.
 *
 * @returns whether the answer was the manifest, or 304
 */
export async function sendManifest(
  api: PullApi,
  { repository, reference }: Extract<Route, { kind: 'manifest' }>,
  { offer, digest }: Wanted,
  { request, response }: Exchange,
): Promise<boolean> {
  const { source, meter } = api;
  const unknown = (message: string) => {
    respondError(response, 404, { code: 'MANIFEST_UNKNOWN', message, detail: { reference } });
    return false;
  };
  const signal = closeSignal(response);
  const manifest = digest && (await readManifest(source, digest, signal));
  if (digest === undefined || manifest === undefined) {
    // Only requests by digest count: clients also request tags to check for signatures.
    if (isDigest(reference)) meter.unknownRequested(repository, reference);
    return unknown(`manifest ${reference} is not here`);
  }
  const client = clientOf(request.headers['user-agent']);
  if (!(await mayBegin(api, { digest, document: manifest.document, offer, client }, signal))) {
    return unknown(`not all layers of ${reference} are here, and the container runtime does not have this image`);
  }
  if (!isAccepted(request.headers, manifest.mediaType)) {
    return unknown(`manifest ${reference} is ${manifest.mediaType}, which the request does not accept`);
  }
  response.setHeader('docker-content-digest', digest);
  response.setHeader('etag', entityTagOf(digest));
  if (isUnmodified(request.headers, digest)) {
    response.writeHead(304).end();
    return true;
  }
  response.writeHead(200, { 'content-type': manifest.mediaType, 'content-length': manifest.bytes.length });
  response.end(request.method === 'HEAD' ? undefined : manifest.bytes);
  return true;
}

/**
 * How long the configuration of a probe is not answered. The daemon aborts the pull meanwhile.
 * containerd would ask the image's own registry for a configuration that is answered 404.
 */
const CONFIG_HOLD_MS = 3_000;

export function sendProbeManifest(bytes: Buffer, digest: string, { request, response }: Exchange): void {
  response.setHeader('docker-content-digest', digest);
  response.writeHead(200, { 'content-type': mediaTypes.ociManifest, 'content-length': bytes.length });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

/** Waits until the client is gone, at most {@link CONFIG_HOLD_MS}, then answers 404. */
export async function refuseProbeConfig(
  { clock }: Pick<PullApi, 'clock'>,
  digest: Digest,
  response: ServerResponse,
): Promise<void> {
  await clock.sleep(CONFIG_HOLD_MS, closeSignal(response)).catch(() => undefined); // aborted when the client is gone
  if (response.destroyed) return;
  respondError(response, 404, { code: 'BLOB_UNKNOWN', message: `blob ${digest} is only a probe`, detail: { digest } });
}
