import { type BundleId, type Digest, parseDigest } from '../domain/model/digest.ts';
import { OFFERED_FILES, type OfferedFile } from './offered-bundles.ts';

/** What a path of the wire form names. */
export type WireRoute =
  | { readonly kind: 'offers' }
  | { readonly kind: 'file'; readonly bundleId: BundleId; readonly name: OfferedFile }
  | { readonly kind: 'blobs'; readonly bundleId: BundleId }
  | { readonly kind: 'blob'; readonly digest: Digest }
  | { readonly kind: 'unknown' };

/** The paths of the wire form. */
export const wirePaths = {
  offers: '/v1/offers',
  fleet: '/v1/fleet',
  file: (bundleId: BundleId, name: OfferedFile) => `/v1/bundles/${bundleId}/${name}`,
  blobs: (bundleId: BundleId) => `/v1/bundles/${bundleId}/blobs.json`,
  blob: (digest: Digest) => `/v1/blobs/${digest}`,
  /** What stands before the paths of a peer on `peers.sock`. */
  peer: (name: string) => `/v1/peers/${encodeURIComponent(name)}`,
} as const;

const UNKNOWN: WireRoute = { kind: 'unknown' };

/** Parses a path. A query is ignored. */
export function parseWirePath(target: string): WireRoute {
  const [path = ''] = target.split('?', 1);
  if (path === wirePaths.offers) return { kind: 'offers' };
  const [, room, name = '', file] = /^\/v1\/(bundles|blobs)\/([^/]+)(?:\/([^/]+))?$/.exec(path) ?? [];
  const digest = parseDigest(decoded(name));
  if (digest === undefined) return UNKNOWN;
  if (room === 'blobs') return file === undefined ? { kind: 'blob', digest } : UNKNOWN;
  if (file === 'blobs.json') return { kind: 'blobs', bundleId: digest };
  const offered = OFFERED_FILES.find((one) => one === file);
  return offered === undefined ? UNKNOWN : { kind: 'file', bundleId: digest, name: offered };
}

/**
 * Splits `/v1/peers/<name>/v1/…` of `peers.sock`: the peer, and the path that it is asked for.
 * Undefined for any other path.
 */
export function parsePeerPath(target: string): { readonly peer: string; readonly path: string } | undefined {
  const [, name, path] = /^\/v1\/peers\/([^/?]+)(\/.*)$/.exec(target) ?? [];
  const peer = name === undefined ? '' : decoded(name);
  return peer === '' || path === undefined ? undefined : { peer, path };
}

/** A client may escape the colon of a digest. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
