import type { Digest } from '../../domain/model/digest.ts';
import { respondJson } from '../../platform/http/respond-json.ts';
import { type Offer, pageOfTags, referrersIndex } from '../offer.ts';
import { respondError } from '../respond.ts';
import { basePath, queryOf } from '../route.ts';
import type { Exchange, PullApi } from './exchange.ts';

/** Sends the tags of a repository, by pages when `n` is given. */
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
