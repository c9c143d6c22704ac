import { type Digest, parseDigest } from '../domain/digest.ts';

/** What a request path asks of the registry (OCI distribution-spec 1.1, "Endpoints"; pull only). */
export type Route =
  | { readonly kind: 'ping' }
  | { readonly kind: 'manifest'; readonly repository: string; readonly reference: Digest | string }
  | { readonly kind: 'blob'; readonly repository: string; readonly digest: Digest }
  | { readonly kind: 'unknown' };

const ENDPOINT = /^\/v2\/([0-9a-f]{32})\/(.+)\/(manifests|blobs)\/([^/]+)$/;
const REPOSITORY = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/;
const TAG = /^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$/;

/**
 * Reads the path of a request. `/v2/` is the ping that clients start with; everything else carries the registry's token, so that two
 * runs of the daemon are never taken for one another: `/v2/TOKEN/quay.io/coreos/etcd/manifests/sha256:…`. What follows the token is the
 * repository as `mirrorPathOf` writes it.
 */
export function parseRoute(url: string, token: string): Route {
  const path = url.split('?', 1)[0] ?? '';
  if (path === '/v2/' || path === '/v2') return { kind: 'ping' };
  const [, given, repository, endpoint, tail] = ENDPOINT.exec(path) ?? [];
  if (given !== token || repository === undefined || tail === undefined) return { kind: 'unknown' };
  if (!REPOSITORY.test(repository)) return { kind: 'unknown' };
  const digest = parseDigest(decodeSafely(tail));
  if (endpoint === 'blobs') return digest === undefined ? { kind: 'unknown' } : { kind: 'blob', repository, digest };
  if (digest !== undefined) return { kind: 'manifest', repository, reference: digest };
  return TAG.test(tail) ? { kind: 'manifest', repository, reference: tail } : { kind: 'unknown' };
}

function decodeSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
