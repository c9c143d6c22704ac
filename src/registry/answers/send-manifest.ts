import { clientOf } from '../../domain/decide/decision.ts';
import { type Digest, isDigest } from '../../domain/model/digest.ts';
import { closeSignal } from '../../platform/http/close-signal.ts';
import { entityTagOf, isAccepted, isUnmodified } from '../../platform/http/preconditions.ts';
import { readManifest } from '../manifest.ts';
import type { Offer } from '../offer.ts';
import { respondError } from '../respond.ts';
import type { Route } from '../route.ts';
import { mayBegin } from './begin.ts';
import type { Exchange, PullApi } from './exchange.ts';

/** What was asked for: an offer, and the digest in it if there is one. */
export interface Wanted {
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
