import type { ServerOptions, ServerResponse } from 'node:http';
import * as v from 'valibot';
import { limits } from '../../bundle/limits.ts';
import {
  type FleetView,
  type NodeStatus,
  type OfferedBundle,
  parseNodeStatus,
  SEARCHES,
} from '../../domain/fleet/node-status.ts';
import { keptPause } from '../../domain/fleet/pause.ts';
import { rollOutProgress } from '../../domain/fleet/progress.ts';
import { type BundleId, type Digest, isDigest, parseDigest } from '../../domain/model/digest.ts';
import type { QueuePlace } from '../../domain/model/reason.ts';
import type { Settings } from '../../domain/settings/settings.ts';
import { AppError, type Disposition } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import { respondJson } from '../../platform/http.ts';

/** `GET /v1/offers`: what a node offers. */
export interface OffersDocument {
  readonly version: 1;
  readonly bundles: readonly OfferedBundle[];
  /** The fleet process adds it for other nodes. */
  readonly node?: { readonly name: string; readonly status?: NodeStatus };
}

/** `GET /v1/fleet` on `peers.sock`: reports of the fleet process to the daemon. */
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

/** Unknown members are ignored; an unreadable status is left out. */
export const offersSchema: v.GenericSchema<unknown, OffersDocument> = v.object({
  version: v.literal(1),
  bundles,
  node: v.optional(v.object({ name: shortText, status: v.optional(status) })),
}) as v.GenericSchema<unknown, OffersDocument>;

/** `GET /v1/bundles/sha256:<hex>/blobs.json`: the present blobs of a bundle with their sizes. */
export const blobsSchema = v.object({ version: v.literal(1), blobs: v.record(digest, count) });

const peer = v.object({
  name: shortText,
  address: shortText,
  trouble: v.optional(v.string()),
  since: v.optional(v.number()),
  leftOut: v.optional(v.string()),
  certificate: v.optional(shortText),
  unreached: v.optional(v.pipe(v.array(bundleId), v.maxLength(2_000))),
  bundles,
});

export const fleetSchema: v.GenericSchema<unknown, FleetDocument> = v.object({
  version: v.literal(1),
  self: shortText,
  nodes: v.array(
    v.object({
      name: shortText,
      status: v.optional(status),
      seenAt: v.optional(v.number()),
      isAbsent: v.boolean(),
      isSilent: v.optional(v.literal(true)),
      facts: v.optional(
        v.object({
          labels: v.record(v.string(), v.string()),
          isReady: v.optional(v.boolean()),
          isCordoned: v.optional(v.boolean()),
        }),
      ),
    }),
  ),
  peers: v.array(peer),
  apiTrouble: v.optional(v.string()),
  keys: v.optional(v.object({ isRead: v.boolean(), trouble: v.optional(v.string()) })),
  isOld: v.optional(v.literal(true)),
  isRemoved: v.optional(v.literal(true)),
  search: v.optional(v.picklist(SEARCHES)),
  readLabels: v.optional(v.array(v.string())),
  lock: v.optional(v.object({ isHeld: v.boolean(), why: v.optional(v.string()) })),
  pauses: v.optional(v.array(keptPause)),
  removed: v.optional(v.array(shortText)),
  rollOuts: v.optional(v.array(v.object({ name: shortText, version: shortText, progress: rollOutProgress }))),
}) as v.GenericSchema<unknown, FleetDocument>;

export type WireRoute =
  | { readonly kind: 'offers' }
  | { readonly kind: 'file'; readonly bundleId: BundleId; readonly name: OfferedFile }
  | { readonly kind: 'blobs'; readonly bundleId: BundleId }
  | { readonly kind: 'blob'; readonly digest: Digest }
  | { readonly kind: 'unknown' };

export const wirePaths = {
  offers: '/v1/offers',
  fleet: '/v1/fleet',
  file: (bundleId: BundleId, name: OfferedFile) => `/v1/bundles/${bundleId}/${name}`,
  blobs: (bundleId: BundleId) => `/v1/bundles/${bundleId}/blobs.json`,
  blob: (digest: Digest) => `/v1/blobs/${digest}`,
  /** Prefix of the paths of a peer on `peers.sock`. */
  peer: (name: string) => `/v1/peers/${encodeURIComponent(name)}`,
} as const;

/** Behind the path: the caller has news for the called node. Older ones ignore it. */
export const NEWS = '?news';

const UNKNOWN: WireRoute = { kind: 'unknown' };

/** A query is ignored. */
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

/** Splits `/v1/peers/<name>/v1/…` of `peers.sock`. Undefined for any other path. */
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

/** For both ends. Sizes in bytes, times in milliseconds. */
export const wireLimits = {
  /** A request or an answer may have so many. */
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
  /** Until a connection is open, and until the head of an answer. */
  answerMs: 30_000,
  /** Until a document is whole. */
  documentMs: 60_000,
  /** How long a body may bring no byte. */
  stallMs: 20_000,
  /** Time for at least `progressBytes` of an awaited body. */
  progressMs: 60_000,
  progressBytes: 16 * KiB,
  /** How long a client may read no byte. A runtime that unpacks may pause. */
  clientStallMs: 60_000,
  /** Long poll for a document (RFC 7240, `wait`). */
  longestWaitMs: 60_000,
  ofNode: 16,
  idleMs: 5_000,
  /** Pause of a client after 503 without a time. */
  retryMs: 10_000,
  /** A longer time is cut to this. */
  longestRetryMs: 5 * 60_000,
} as const;

/** A response may take as long as its client reads. */
export const WIRE_SERVER_OPTIONS: ServerOptions = {
  maxHeaderSize: wireLimits.headerBytes,
  headersTimeout: 10_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
  keepAliveTimeout: wireLimits.idleMs,
};

interface FleetPaths {
  /** The daemon listens on it, by default `/run/stickpin/offers.sock`. */
  readonly offersSocket: string;
  /** The fleet process listens on it, by default `/run/stickpin-fleet/peers.sock`. */
  readonly peersSocket: string;
  /** The sources process listens on it, by default `/run/stickpin-sources/peers.sock`. */
  readonly sourcesSocket: string;
  /** The fleet process writes here what a boot may lose. */
  readonly runDir: string;
  /** The fleet process keeps its state here. */
  readonly stateDir: string;
}

/** The fleet process has its paths beside those of the daemon. */
export function fleetPaths({ run_dir, state_dir }: Settings['paths']): FleetPaths {
  const runDir = `${run_dir}-fleet`;
  return {
    offersSocket: `${run_dir}/offers.sock`,
    peersSocket: `${runDir}/peers.sock`,
    sourcesSocket: `${run_dir}-sources/peers.sock`,
    runDir,
    stateDir: `${state_dir}-fleet`,
  };
}

/** Offered besides blobs. */
export const OFFERED_FILES = ['bundle.dsse.json', 'contents.json', 'index.json'] as const;

export type OfferedFile = (typeof OFFERED_FILES)[number];

const OFFERS_DISPOSITIONS = {
  /** The node serves its maximum of others. */
  'offers/busy': 'wait',
  /** The answer is not of this form. */
  'offers/answer': 'reject',
  /** It answers, but its read failed. */
  'offers/failed': 'retry',
  /** It does not answer in time. */
  'offers/unreachable': 'retry',
  'offers/listen': 'retry',
} as const satisfies Readonly<Record<string, Disposition>>;

export type OffersErrorCode = keyof typeof OFFERS_DISPOSITIONS;

/** A node that serves its maximum of others sends it. */
export interface Busy {
  readonly queue?: QueuePlace;
  /** In milliseconds from the answer. */
  readonly retryMs: number;
}

/** Its cause is the {@link Busy} of `who`. */
export function busyError(who: string, busy: Busy): AppError<OffersErrorCode> {
  const { queue } = busy;
  const place = queue === undefined ? '' : `: place ${queue.place} of ${queue.waiting}`;
  const why = queue?.place === 0 ? 'gives nothing large now' : `serves as many other nodes as it may${place}`;
  return offersError('offers/busy', `${who} ${why}`, busy);
}

export function offersError(code: OffersErrorCode, message: string, cause?: unknown): AppError<OffersErrorCode> {
  return new AppError({ code, message, disposition: OFFERS_DISPOSITIONS[code], cause });
}

/** Undefined for any other error. */
export function busyOf(error: unknown): Busy | undefined {
  if (!(error instanceof AppError) || error.code !== 'offers/busy') return undefined;
  return error.cause as Busy;
}

const queueSchema = v.object({ place: count, waiting: count, waitMs: v.optional(count), mostMs: v.optional(count) });

/** `Retry-After` is in whole seconds (RFC 9110, section 10.2.3). */
export function respondBusy(response: ServerResponse, { queue, retryMs }: Busy): void {
  const body = queue ?? { error: 'this node serves as many others as it may' };
  respondJson(response, 503, body, { 'retry-after': String(Math.max(1, Math.ceil(retryMs / 1_000))) });
}

/** What can't be read counts as absent. */
export function parseBusy(retryAfter: string | undefined, body: string): Busy {
  const seconds = retryAfter !== undefined && /^\d{1,5}$/.test(retryAfter) ? Number(retryAfter) : undefined;
  const wishMs = seconds === undefined ? wireLimits.retryMs : Math.max(1, seconds) * 1_000;
  const retryMs = Math.min(wishMs, wireLimits.longestRetryMs);
  const queue = v.safeParse(queueSchema, parsed(body));
  return queue.success ? { queue: defined(queue.output), retryMs } : { retryMs };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
