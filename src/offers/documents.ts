import type { ServerOptions } from 'node:http';
import * as v from 'valibot';
import { limits } from '../bundle/limits.ts';
import {
  type FleetView,
  type NodeStatus,
  type OfferedBundle,
  parseNodeStatus,
  SEARCHES,
} from '../domain/fleet/node-status.ts';
import { type BundleId, type Digest, isDigest, parseDigest } from '../domain/model/digest.ts';
import type { Settings } from '../domain/settings/settings.ts';

/** `GET /v1/offers`: what a node offers. */
export interface OffersDocument {
  readonly version: 1;
  readonly bundles: readonly OfferedBundle[];
  /** The own name and status of the node; the fleet process adds it for other nodes. */
  readonly node?: { readonly name: string; readonly status?: NodeStatus };
}

/**
 * `GET /v1/bundles/sha256:<hex>/blobs.json`: the blobs of a bundle that are there, with their
 * sizes.
 */
export interface BlobsDocument {
  readonly version: 1;
  readonly blobs: Readonly<Record<Digest, number>>;
}

/** `GET /v1/fleet` on `peers.sock`: what the fleet process tells the daemon. */
export interface FleetDocument extends FleetView {
  readonly version: 1;
}

const shortText = v.pipe(v.string(), v.minLength(1), v.maxLength(253));
const digest = v.custom<Digest>((value) => typeof value === 'string' && isDigest(value), 'must be a digest');
const bundleId: v.GenericSchema<unknown, BundleId> = digest;
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const status = v.pipe(
  v.unknown(),
  v.transform((document) => parseNodeStatus(document)),
);

const offeredBundle = v.object({
  bundleId,
  name: shortText,
  version: shortText,
  sequence: count,
  isWhole: v.boolean(),
  revision: shortText,
});

const bundles = v.pipe(v.array(offeredBundle), v.maxLength(1_000));

/** Reads `offers`. Unknown members are ignored; a status that can't be read is left out. */
export const offersSchema: v.GenericSchema<unknown, OffersDocument> = v.object({
  version: v.literal(1),
  bundles,
  node: v.optional(v.object({ name: shortText, status: v.optional(status) })),
}) as v.GenericSchema<unknown, OffersDocument>;

/** Reads `blobs.json`. */
export const blobsSchema = v.object({ version: v.literal(1), blobs: v.record(digest, count) });

const peer = v.object({
  name: shortText,
  address: shortText,
  trouble: v.optional(v.string()),
  bundles,
});

/** Reads `fleet`. */
export const fleetSchema: v.GenericSchema<unknown, FleetDocument> = v.object({
  version: v.literal(1),
  self: shortText,
  nodes: v.array(
    v.object({
      name: shortText,
      status: v.optional(status),
      seenAt: v.optional(v.number()),
      isAbsent: v.boolean(),
    }),
  ),
  peers: v.array(peer),
  apiTrouble: v.optional(v.string()),
  search: v.optional(v.picklist(SEARCHES)),
}) as v.GenericSchema<unknown, FleetDocument>;

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

const KiB = 1024;
const MiB = 1024 * KiB;

/** Limits of the wire form, for both ends. Sizes in bytes, times in milliseconds. */
export const wireLimits = {
  /** All headers of a request or an answer. */
  headerBytes: 8 * KiB,
  /** `/v1/offers`: 1,000 bundles and a status. */
  offersBytes: MiB,
  /** `/v1/fleet`: 5,000 nodes, each with an annotation of 2 KiB. */
  fleetBytes: 16 * MiB,
  /** `blobs.json`: 100 bytes for each blob of the largest bundle. */
  blobsBytes: 8 * MiB,
  /** The body of an error, and of 503. */
  errorBytes: 4 * KiB,
  /** Files of a bundle, as on a stick. */
  fileBytes: {
    'bundle.dsse.json': limits.envelopeBytes,
    'contents.json': limits.contentsBytes,
    'index.json': limits.indexBytes,
  },
  /** Until a connection is open, and until the head of an answer is there. */
  answerMs: 30_000,
  /** Until a document is there as a whole. */
  documentMs: 60_000,
  /** How long a body may bring no byte. */
  stallMs: 20_000,
  /** While a body is waited for so long, it brings at least `progressBytes`. */
  progressMs: 60_000,
  progressBytes: 16 * KiB,
  /** How long a client may take no byte. A runtime that unpacks may pause. */
  clientStallMs: 60_000,
  /** How long a request for a document may wait for a change (RFC 7240, `wait`). */
  longestWaitMs: 60_000,
  /** Connections of one node to another, and its requests at once. */
  ofNode: 16,
  /** How long a connection without a request stays open. */
  idleMs: 5_000,
  /** How long a client waits that was told no time by 503. */
  retryMs: 10_000,
} as const;

/** What every server of the wire form sets. A response may take as long as its client reads. */
export const WIRE_SERVER_OPTIONS: ServerOptions = {
  maxHeaderSize: wireLimits.headerBytes,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
  keepAliveTimeout: wireLimits.idleMs,
};

/** Where the daemon and the fleet process meet, and what belongs to the fleet process. */
interface FleetPaths {
  /**
   * The socket on which the daemon offers what this node has, by default
   * `/run/stickpin/offers.sock`.
   */
  readonly offersSocket: string;
  /**
   * The socket on which the fleet process offers its peers, by default
   * `/run/stickpin-fleet/peers.sock`.
   */
  readonly peersSocket: string;
  /** The `RuntimeDirectory=` of the fleet process. */
  readonly runDir: string;
  /** The `StateDirectory=` of the fleet process. */
  readonly stateDir: string;
}

/** The paths of both processes: those of the fleet process lie beside those of the daemon. */
export function fleetPaths({ run_dir, state_dir }: Settings['paths']): FleetPaths {
  const runDir = `${run_dir}-fleet`;
  return {
    offersSocket: `${run_dir}/offers.sock`,
    peersSocket: `${runDir}/peers.sock`,
    runDir,
    stateDir: `${state_dir}-fleet`,
  };
}

/** The files of a bundle that are offered besides its blobs. */
export const OFFERED_FILES = ['bundle.dsse.json', 'contents.json', 'index.json'] as const;

/** One of {@link OFFERED_FILES}. */
export type OfferedFile = (typeof OFFERED_FILES)[number];
