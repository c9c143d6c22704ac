import { type Digest, isDigest } from '../../domain/model/digest.ts';
import { readManifest } from '../manifest.ts';
import { entityTagOf, isAccepted, isUnmodified } from '../preconditions.ts';
import { respondError } from '../respond.ts';
import type { Route } from '../route.ts';
import { closeSignal, type Exchange, type PullApi } from './exchange.ts';

/** Sends the manifest with this digest. 404 when it is undefined or no source has it. */
export async function sendManifest(
  { source, meter }: PullApi,
  { repository, reference }: Extract<Route, { kind: 'manifest' }>,
  digest: Digest | undefined,
  { request, response }: Exchange,
): Promise<void> {
  const unknown = (message: string) =>
    respondError(response, 404, { code: 'MANIFEST_UNKNOWN', message, detail: { reference } });
  const manifest = digest && (await readManifest(source, digest, closeSignal(response)));
  if (digest === undefined || manifest === undefined) {
    // Only requests by digest count: clients also request tags to check for signatures.
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
