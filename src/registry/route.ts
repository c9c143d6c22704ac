import type { ServerResponse } from 'node:http';
import { type Digest, parseDigest } from '../domain/model/digest.ts';
import { respondJson } from '../platform/http.ts';

/** OCI distribution-spec 1.1, "Endpoints"; pull only. */
export type Route =
  | { readonly kind: 'ping' }
  | { readonly kind: 'manifest'; readonly repository: string; readonly reference: Digest | string }
  | { readonly kind: 'blob'; readonly repository: string; readonly digest: Digest }
  | { readonly kind: 'tags'; readonly repository: string }
  | { readonly kind: 'referrers'; readonly repository: string; readonly digest: Digest }
  /** The path violates the specification, or can't name anything. */
  | { readonly kind: 'refused'; readonly status: 400 | 404; readonly code: RegistryErrorCode; readonly message: string }
  | { readonly kind: 'unknown' };

const ENDPOINT = /^(.+)\/(manifests|blobs|referrers)\/([^/]+)$/;
const TAGS = /^(.+)\/tags\/list$/;
const REPOSITORY = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/;
const TAG = /^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$/;
/** Any algorithm may be requested (image-spec, descriptor.md). This registry has only SHA-256. */
const ANY_DIGEST = /^[a-z0-9]+(?:[+._-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$/;

/**
 * `/v2/` is the ping that clients send first. All other paths contain the token, so that a request
 * can't reach a later run of the daemon: `/v2/TOKEN/quay.io/coreos/etcd/manifests/sha256:…`. Then
 * comes the repository in the form of `mirrorPathOf`.
 * @param token 32 hex digits, or undefined for a registry without one
 */
export function parseRoute(url: string, token: string | undefined): Route {
  const path = pathOf(url);
  if (path === '/v2/' || path === '/v2') return { kind: 'ping' };
  const base = basePath(token);
  if (!path.startsWith(base)) return { kind: 'unknown' };
  const below = path.slice(base.length);
  const [, listed] = TAGS.exec(below) ?? [];
  if (listed !== undefined) return withName(listed, (repository) => ({ kind: 'tags', repository }));
  const [, name, endpoint, tail] = ENDPOINT.exec(below) ?? [];
  if (name === undefined || tail === undefined) return { kind: 'unknown' };
  return withName(name, (repository) => {
    if (endpoint === 'manifests') return manifestRoute(repository, decodeSafely(tail));
    const digest = digestOf(decodeSafely(tail), endpoint === 'blobs' ? 'BLOB_UNKNOWN' : 'MANIFEST_UNKNOWN');
    if (typeof digest !== 'string') return digest;
    return { kind: endpoint === 'blobs' ? 'blob' : 'referrers', repository, digest };
  });
}

/** A client may put scheme and host before it (RFC 9112, section 3.2.2). */
function pathOf(target: string): string {
  const path = target.split('?', 1)[0] ?? '';
  return path.replace(/^https?:\/\/[^/]*/i, '') || '/';
}

export function basePath(token: string | undefined): string {
  return token === undefined ? '/v2/' : `/v2/${token}/`;
}

export function queryOf(url: string): URLSearchParams {
  const mark = url.indexOf('?');
  return new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1));
}

function withName(encoded: string, route: (repository: string) => Route): Route {
  const repository = decodeSafely(encoded);
  if (REPOSITORY.test(repository)) return route(repository);
  return refused(400, 'NAME_INVALID', 'the repository is not named as the specification allows');
}

function manifestRoute(repository: string, reference: string): Route {
  if (TAG.test(reference)) return { kind: 'manifest', repository, reference };
  const digest = reference.includes(':')
    ? digestOf(reference, 'MANIFEST_UNKNOWN')
    : refused(404, 'MANIFEST_UNKNOWN', 'what is asked for is neither a tag nor a digest');
  return typeof digest === 'string' ? { kind: 'manifest', repository, reference: digest } : digest;
}

function digestOf(text: string, unknown: RegistryErrorCode): Digest | Route {
  const digest = parseDigest(text);
  if (digest !== undefined) return digest;
  return ANY_DIGEST.test(text) && !text.startsWith('sha256:')
    ? refused(404, unknown, 'only SHA-256 digests are known here')
    : refused(400, 'DIGEST_INVALID', 'a digest is sha256: and 64 lower-case hex digits');
}

function refused(status: 400 | 404, code: RegistryErrorCode, message: string): Route & { kind: 'refused' } {
  return { kind: 'refused', status, code, message };
}

function decodeSafely(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** OCI distribution-spec 1.1, "Error Codes". */
type RegistryErrorCode =
  | 'BLOB_UNKNOWN'
  | 'MANIFEST_UNKNOWN'
  | 'NAME_INVALID'
  | 'NAME_UNKNOWN'
  | 'DIGEST_INVALID'
  | 'DENIED'
  | 'TOOMANYREQUESTS'
  | 'UNSUPPORTED';

/** `detail` names the requested item. */
export interface RegistryError {
  readonly code: RegistryErrorCode;
  readonly message: string;
  readonly detail?: Readonly<Record<string, string>>;
}

export function respondError(response: ServerResponse, status: number, error: RegistryError): void {
  respondJson(response, status, { errors: [error] });
}
