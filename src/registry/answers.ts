import type { IncomingMessage, ServerResponse } from 'node:http';
import { type ImageDocument, mediaTypes } from '../bundle/format/oci-schema.ts';
import { parseReferrers, referrersIndex, referrersTagOf } from '../bundle/format/referrers.ts';
import { type Client, clientOf, type Extent, manifestAnswer } from '../domain/decide/catalog.ts';
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
import { type Offer, pageOfTags, readManifest } from './blob-union.ts';
import type { Meter, MeteredTransfer } from './meter.ts';
import type { Probes } from './probes.ts';
import type { ReadTurns } from './read-turns.ts';
import { basePath, queryOf, type Route, respondError } from './route.ts';
import { type TransferDependencies, type TransferRange, transfer } from './transfer.ts';

export interface PullApiOptions extends Omit<TransferDependencies, 'onWait' | 'turn'> {
  /** 32 hex digits that every path except the ping must have. */
  readonly token: string | undefined;
  /** `namespace`: the original registry, which containerd sends as `?ns=quay.io`. */
  readonly find: (path: string, namespace: string | undefined) => Offer | undefined;
  /** Aborts with the first offers, for which earlier requests wait. */
  readonly firstOffers?: AbortSignal;
  readonly meter: Meter;
  readonly log: Log;
  /** Default none. */
  readonly probes?: Probes;
  /** Whether the runtime has this image now. Default: never. */
  readonly isHeld?: (reference: string, signal: AbortSignal) => Promise<boolean>;
  /** Layers are kept during their transfer. Default none. */
  readonly layers?: Pick<LayerCopies, 'begin'>;
}

export interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export interface PullApi extends PullApiOptions {
  readonly turns: ReadTurns;
  /** Manifests of each index that was requested. */
  readonly indexes: Map<Digest, ReadonlySet<Digest>>;
}

/** Undefined when the offer does not include it. */
export function offered(digest: Digest | undefined, { digests }: Offer): Digest | undefined {
  return digest === undefined || digests === undefined || digests.has(digest) ? digest : undefined;
}

export interface RequestedManifest {
  readonly digest: Digest;
  /** Undefined when its bytes are damaged. */
  readonly document: ImageDocument | undefined;
  readonly offer: Offer;
  readonly client: Client;
}

/** After a start of the daemon the runtime is asked until the daemon has reached it. */
const HELD_MS = 15_000;
const ASK_AGAIN_MS = 250;

/**
 * Whether the client may begin a pull with this manifest, see `manifestAnswer`. The runtime is
 * asked only if the answer depends on it, and each time: an image may have been removed just now.
 * @throws AppError as {@link BlobSource.read}; whatever aborted `signal`
 */
export async function mayBegin(api: PullApi, requested: RequestedManifest, signal: AbortSignal): Promise<boolean> {
  const { digest, document, offer, client } = requested;
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

/** No answer in time, or an error, counts as no: CRI-O that lost a layer repeats its error. */
async function isHeld(api: PullApi, reference: string, signal: AbortSignal): Promise<boolean> {
  const { isHeld: isHeldNow } = api;
  if (isHeldNow === undefined) return false;
  const untilAnswered = async (inner: AbortSignal): Promise<boolean> => {
    for (;;) {
      try {
        return await isHeldNow(reference, inner);
      } catch (error) {
        inner.throwIfAborted();
        if (!(error instanceof AppError) || error.code !== 'runtime/unreachable') return false;
        await api.clock.sleep(ASK_AGAIN_MS, inner);
      }
    }
  };
  try {
    return await withDeadline('the container runtime', HELD_MS, signal, untilAnswered);
  } catch {
    signal.throwIfAborted();
    return false;
  }
}

/** The image of a manifest: itself, or the index that names it. */
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

async function manifestsOf(api: PullApi, root: Digest, signal: AbortSignal): Promise<ReadonlySet<Digest>> {
  const known = api.indexes.get(root);
  if (known !== undefined) return known;
  const document = (await readManifest(api.source, root, signal))?.document;
  if (document === undefined) return new Set();
  const named = new Set(document.kind === 'index' ? document.manifests.map(({ digest }) => digest) : []);
  api.indexes.set(root, named);
  return named;
}

/**
 * containerd asks for a manifest as a blob too, after a 404 or a broken connection, and takes its
 * media type from the answer: one that is not the manifest's would spoil the image in its store.
 */
export function isManifest({ indexes }: PullApi, digest: Digest, { images }: Offer): boolean {
  return images?.references.has(digest) === true || [...indexes.values()].some((below) => below.has(digest));
}

/** Only those manifests of an index count that a source has. */
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

/** Closes the connection when the source does not return, so that the client sees that. */
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
    const remaining = { ...range, firstByte: position };
    for await (const chunk of transfer(remaining, { ...api, turn, onWait: metered.awaitsMedium }, signal)) {
      saved = kept?.write(chunk, signal);
      // Recorded before the last byte: the runtime may refuse the blob at once, and the cause must
      // be known then, even if the disk is slow.
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

/** What an earlier, aborted transfer has kept is not read from a medium again. */
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
  const namespace = ns === null ? '' : `&ns=${encodeURIComponent(ns)}`;
  const next = `${basePath(token)}${repository}/tags/list?n=${n}&last=${last}${namespace}`;
  respondJson(response, 200, { name: repository, tags }, last === undefined ? {} : { link: `<${next}>; rel="next"` });
}

/** Empty when none is known. */
export async function sendReferrers(
  { source }: PullApi,
  digest: Digest,
  offer: Offer,
  { request, response }: Exchange,
): Promise<void> {
  const artifactType = queryOf(request.url ?? '').get('artifactType') ?? undefined;
  const listed = offer.tags.get(referrersTagOf(digest));
  const known = listed && (await readManifest(source, listed, closeSignal(response)));
  const found = known?.document === undefined ? [] : parseReferrers(known.bytes, digest, 'bundle/inconsistent');
  const index = referrersIndex(offer.referrers?.get(digest) ?? found, artifactType);
  respondJson(response, 200, index, {
    'content-type': index.mediaType,
    ...(artifactType !== undefined && { 'oci-filters-applied': 'artifactType' }),
  });
}

interface Wanted {
  readonly offer: Offer;
  readonly digest: Digest | undefined;
}

export type WantedManifest = Pick<Extract<Route, { kind: 'manifest' }>, 'repository' | 'reference'>;

/** Whether the answer was the manifest, or 304. 404 sends the client to another registry. */
export async function sendManifest(
  api: PullApi,
  { repository, reference }: WantedManifest,
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

/** The daemon aborts the pull meanwhile. After a 404 containerd would try the image's registry. */
const CONFIG_HOLD_MS = 3_000;

export function sendProbeManifest(bytes: Buffer, digest: string, { request, response }: Exchange): void {
  response.setHeader('docker-content-digest', digest);
  response.writeHead(200, { 'content-type': mediaTypes.ociManifest, 'content-length': bytes.length });
  response.end(request.method === 'HEAD' ? undefined : bytes);
}

/** Waits for the end of the client, at most {@link CONFIG_HOLD_MS}, then answers 404. */
export async function refuseProbeConfig({ clock }: PullApi, digest: Digest, response: ServerResponse): Promise<void> {
  await clock.sleep(CONFIG_HOLD_MS, closeSignal(response)).catch(() => undefined); // aborted when the client is gone
  if (response.destroyed) return;
  respondError(response, 404, { code: 'BLOB_UNKNOWN', message: `blob ${digest} is only a probe`, detail: { digest } });
}
