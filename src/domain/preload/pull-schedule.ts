import { digestOf } from '../../platform/digest.ts';
import type { Image, Layer, VerifiedBundle } from '../model/bundle.ts';
import { type Digest, hexOf } from '../model/digest.ts';
import type { LayerStorage } from '../model/image.ts';
import type { Policy } from '../settings/settings.ts';
import type { RunningTask } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';

export interface PullCandidate {
  readonly reference: string;
  readonly missingLayers: readonly { readonly digest: Digest; readonly sizeBytes: number }[];
  /** It waits for its medium and holds its layers. Up to `parallel` such pulls hold no slot. */
  readonly isCut?: boolean;
}

export interface PullQueue<Pull extends PullCandidate = PlannedPull> {
  /** These pulls have not started, and have the order of {@link orderPulls}. */
  readonly waiting: readonly Pull[];
  readonly running: readonly PullCandidate[];
  /** The runtime got these layers after `missingLayers` was determined. */
  readonly landed: ReadonlySet<Digest>;
  readonly parallel: number;
  /** The runtime reads a layer once for pulls that share it (docs/runtime-facts.md, fact 23). */
  readonly readsSharedOnce?: boolean;
}

/**
 * Carriers of the layers on which most bytes of others depend go first. With `spread`, content that
 * the fewest other nodes have comes next, and each node has its own order. Without it the largest
 * image comes next. Ties keep the order of the bundle.
 */
export function orderPulls<Pull extends PullCandidate>(candidates: readonly Pull[], spread?: Spread): Pull[] {
  const carriers = countCarriers(candidates);
  return candidates
    .map((candidate) => ({
      candidate,
      sharedBytes: sharedBytes(candidate, carriers),
      holders: spread === undefined ? 0 : holdersOfRarest(candidate.missingLayers, spread),
      rank: spread === undefined ? -sizeOf(candidate) : ownRank(candidate.reference, spread),
    }))
    .sort((a, b) => b.sharedBytes - a.sharedBytes || a.holders - b.holders || a.rank - b.rank)
    .map(({ candidate }) => candidate);
}

/**
 * INVARIANTS: no two running pulls share a missing layer, since a runtime may read it from the
 * medium once for each (docs/runtime-facts.md, fact 14); a pull starts whenever one may run and a
 * slot is free. For a runtime that reads a shared layer once, pulls that share one get the
 * remaining slots: their unshared layers need not wait for it.
 */
export function fittingPulls<Pull extends PullCandidate>(input: PullQueue<Pull>): Pull[] {
  const { waiting, running, landed, parallel, readsSharedOnce = false } = input;
  const missing = (pull: PullCandidate) => pull.missingLayers.filter(({ digest }) => !landed.has(digest));
  const busy = new Set(running.flatMap((pull) => missing(pull).map(({ digest }) => digest)));
  const next: Pull[] = [];
  const slots = Math.min(
    parallel - running.filter(({ isCut }) => isCut !== true).length,
    2 * parallel - running.length,
  );
  for (const candidate of waiting) {
    if (next.length >= slots) break;
    const layers = missing(candidate);
    if (layers.some(({ digest }) => busy.has(digest))) continue;
    for (const { digest } of layers) busy.add(digest);
    next.push(candidate);
  }
  if (!readsSharedOnce) return next;
  const others = waiting.filter((candidate) => !next.includes(candidate));
  return [...next, ...others.slice(0, Math.max(0, slots - next.length))];
}

function countCarriers(candidates: readonly PullCandidate[]): ReadonlyMap<Digest, number> {
  const carriers = new Map<Digest, number>();
  for (const candidate of candidates) {
    for (const { digest } of candidate.missingLayers) carriers.set(digest, (carriers.get(digest) ?? 0) + 1);
  }
  return carriers;
}

/** Returns the bytes that other candidates wait for until this one is pulled. */
function sharedBytes(candidate: PullCandidate, carriers: ReadonlyMap<Digest, number>): number {
  return candidate.missingLayers.reduce(
    (sum, { digest, sizeBytes }) => sum + sizeBytes * ((carriers.get(digest) ?? 1) - 1),
    0,
  );
}

function sizeOf(candidate: PullCandidate): number {
  return candidate.missingLayers.reduce((sum, layer) => sum + layer.sizeBytes, 0);
}

/** containerd often waits for its disk when it has only two (docs/decisions/pull-order.md). */
const CONTAINERD = 4;
/** More pulls wait for each other at CRI-O's storage, and are slower. */
const OTHERS = 2;

/** Says what `preload.parallel = "auto"` means for this storage. */
export function parallelPulls(setting: number | 'auto', layerStorage: LayerStorage | undefined): number {
  if (setting !== 'auto') return setting;
  return layerStorage === 'both' ? CONTAINERD : OTHERS;
}

type PullTask = Extract<RunningTask, { kind: 'pull' }>;

export interface PlannedPull extends PullCandidate {
  readonly task: PullTask;
}

export interface PullStarts {
  readonly starts: readonly PullTask[];
  readonly pullQueue: PullQueue;
}

/** Returns the pulls to start after a successful one, without a new observation of the runtime. */
export function afterPull(pullQueue: PullQueue, reference: string): PullStarts {
  const { running, landed } = pullQueue;
  const ended = running.filter((pull) => pull.reference === reference);
  const brought = ended.flatMap(({ missingLayers }) => missingLayers.map(({ digest }) => digest));
  return fill({
    ...pullQueue,
    running: running.filter((pull) => pull.reference !== reference),
    landed: new Set([...landed, ...brought]),
  });
}

export function fill(pullQueue: PullQueue): PullStarts {
  const starts = fittingPulls(pullQueue);
  if (starts.length === 0) return { starts: [], pullQueue };
  const started = new Set(starts);
  return {
    starts: starts.map(({ task }) => task),
    pullQueue: {
      ...pullQueue,
      waiting: pullQueue.waiting.filter((pull) => !started.has(pull)),
      running: [...pullQueue.running, ...starts],
    },
  };
}

/** Nodes that load the same bundle share the work: each begins with blobs that few others have. */
export interface Spread {
  readonly self: string;
  /** How many other nodes give a layer. Absent means none. */
  readonly holders: ReadonlyMap<Digest, number>;
}

/**
 * Undefined when this node does not serve the blobs that it loads: then all nodes keep the same
 * order, so that the page cache serves them in one pass over a stick. Also undefined when a stick
 * is plugged in, and when no other node gives anything.
 */
export function spreadOf(
  { media, fleet }: Pick<Observed, 'media' | 'fleet'>,
  policy: Pick<Policy, 'fleet' | 'retention'>,
  layerStorage: LayerStorage | undefined,
): Spread | undefined {
  if (fleet === undefined || !policy.fleet.serve || !keepsBlobs(policy, layerStorage)) return undefined;
  const givers = media.filter(({ state }) => state.kind === 'read' && givenBy(state.bundles).size > 0);
  if (givers.length === 0 || givers.some(({ peer }) => peer === undefined)) return undefined;
  const holders = new Map<Digest, number>();
  for (const { state } of givers) {
    for (const digest of state.kind === 'read' ? givenBy(state.bundles) : [])
      holders.set(digest, (holders.get(digest) ?? 0) + 1);
  }
  return { self: fleet.self, holders };
}

/** Whether this node keeps a second copy of layers, to serve it to others. */
function keepsBlobs({ retention }: Pick<Policy, 'retention'>, layerStorage: LayerStorage | undefined): boolean {
  return retention.blobs === 'kept' || layerStorage === 'both';
}

function holdersOfRarest(layers: readonly { readonly digest: Digest }[], { holders }: Spread): number {
  return layers.reduce((least, { digest }) => Math.min(least, holders.get(digest) ?? 0), Number.MAX_SAFE_INTEGER);
}

/** Gives each node its own order of equal pulls. Below 2^32. */
function ownRank(reference: string, { self }: Spread): number {
  return Number.parseInt(hexOf(digestOf(`${self}\n${reference}`)).slice(0, 8), 16);
}

function givenBy(bundles: Extract<Observed['media'][number]['state'], { kind: 'read' }>['bundles']): Set<Digest> {
  const given = bundles.flatMap((found) => {
    if (found.kind !== 'verified') return [];
    const missing = new Set(found.missing.map(({ digest }) => digest));
    return found.bundle.contents.layers.flatMap(({ digest }) => (missing.has(digest) ? [] : [digest]));
  });
  return new Set(given);
}

export function missingLayersOf(
  image: Pick<Image, 'layers'>,
  bundle: VerifiedBundle,
  presentLayers: ReadonlySet<Digest>,
): readonly Layer[] {
  return image.layers
    .map((index) => bundle.contents.layers[index])
    .filter((layer): layer is Layer => layer !== undefined && !presentLayers.has(layer.digest));
}

/**
 * Returns an upper bound: `contents.json` lists the layers of all manifests of an index. The larger
 * of twins with the same content, packed with gzip or zstd, counts.
 */
export function largerTwins(layers: readonly Layer[]): readonly Layer[] {
  const larger = new Map<Digest, Layer>();
  for (const layer of layers) {
    const known = larger.get(layer.diffId);
    if (known === undefined || known.sizeBytes < layer.sizeBytes) larger.set(layer.diffId, layer);
  }
  return [...larger.values()];
}
