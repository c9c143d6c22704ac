import type { ServerResponse } from 'node:http';
import { isDigest } from '../domain/model/digest.ts';
import { withEither } from '../platform/async/abort.ts';
import { closeSignal, respondJson } from '../platform/http.ts';
import {
  type Exchange,
  isManifest,
  offered,
  type PullApi,
  type PullApiOptions,
  refuseProbeConfig,
  sendBlob,
  sendManifest,
  sendProbeManifest,
  sendReferrers,
  sendTags,
  type WantedManifest,
} from './answers.ts';
import type { Offer } from './blob-union.ts';
import { meteredSource } from './meter.ts';
import { ReadTurns } from './read-turns.ts';
import { parseRoute, queryOf, type Route, respondError } from './route.ts';

/** GET and HEAD of the OCI distribution-spec 1.1 (pull, tags, referrers). */
export function createPullApi(options: PullApiOptions): (exchange: Exchange) => Promise<void> {
  const source = meteredSource(options.source, options.meter);
  const api: PullApi = { ...options, source, turns: new ReadTurns(options.clock), indexes: new Map() };
  return (exchange) => answer(api, exchange);
}

async function answer(api: PullApi, exchange: Exchange): Promise<void> {
  const { url = '' } = exchange.request;
  const route = parseRoute(url, api.token);
  if (route.kind === 'ping') return respondJson(exchange.response, 200, {});
  if (route.kind === 'refused') {
    const { status, code, message } = route;
    return respondError(exchange.response, status, { code, message });
  }
  if (route.kind === 'blob' && api.probes?.isConfig(route.digest)) {
    return refuseProbeConfig(api, route.digest, exchange.response);
  }
  const probe = route.kind === 'manifest' ? api.probes?.manifest(route.repository, route.reference) : undefined;
  if (route.kind === 'manifest' && probe !== undefined) {
    sendProbeManifest(probe, route.reference, exchange);
    return api.meter.manifestRequested(route.repository, route.reference, true);
  }
  await untilOffered(api, exchange.response);
  const namespace = queryOf(url).get('ns') ?? undefined;
  const offer = route.kind === 'unknown' ? undefined : api.find(route.repository, namespace);
  if (route.kind === 'unknown' || offer === undefined) {
    const detail = route.kind === 'unknown' ? {} : { detail: { name: route.repository } };
    const error = { code: 'NAME_UNKNOWN', message: 'nothing is offered under this name', ...detail } as const;
    return respondError(exchange.response, 404, error);
  }
  await answerRoute(api, route, offer, exchange);
}

/** The first round of the daemon brings the offers; on a slow node that takes longer than 10 s. */
const FIRST_OFFERS_MS = 20_000;

/** While the daemon starts: after a 404 the client would use another registry. */
async function untilOffered({ clock, firstOffers }: PullApi, response: ServerResponse): Promise<void> {
  if (firstOffers === undefined || firstOffers.aborted) return;
  const sleep = (over: AbortSignal) => clock.sleep(FIRST_OFFERS_MS, over);
  await withEither([firstOffers, closeSignal(response)], sleep).catch(() => undefined); // only an abort throws
}

async function answerRoute(
  api: PullApi,
  route: Exclude<Route, { kind: 'ping' | 'refused' | 'unknown' }>,
  offer: Offer,
  exchange: Exchange,
) {
  switch (route.kind) {
    case 'blob': {
      const { digest: reference, repository } = route;
      if (isManifest(api, reference, offer)) return answerManifest(api, { repository, reference }, offer, exchange);
      return sendBlob(api, route, offer, exchange);
    }
    case 'tags':
      return sendTags(api, route.repository, offer, exchange);
    case 'referrers':
      return sendReferrers(api, route.digest, offer, exchange);
    case 'manifest':
      return answerManifest(api, route, offer, exchange);
  }
}

async function answerManifest(api: PullApi, wanted: WantedManifest, offer: Offer, exchange: Exchange) {
  const { reference, repository } = wanted;
  const digest = isDigest(reference) ? reference : (offer.tags.get(reference) ?? offer.referrersTags?.get(reference));
  let isSent = false;
  try {
    isSent = await sendManifest(api, wanted, { offer, digest: offered(digest, offer) }, exchange);
  } finally {
    // Counted last: code that waits for this request may start a pull at once, and the request
    // must not count as an unknown one of that pull.
    api.meter.manifestRequested(repository, reference, isSent);
  }
}
