import type { Digest } from '../model/digest.ts';
import { holdersOfRarest, ownRank, type Spread } from './spread.ts';

/** An image that is to be pulled, with those of its layers that the runtime has not got. */
export interface PullCandidate {
  readonly reference: string;
  readonly missingLayers: readonly { readonly digest: Digest; readonly sizeBytes: number }[];
}

/** What the schedule looks at. */
export interface ScheduleInput<Pull extends PullCandidate> {
  /** Not started yet, in the order of {@link orderPulls}. */
  readonly waiting: readonly Pull[];
  /** Pulls that run now. */
  readonly running: readonly PullCandidate[];
  /** Layers that the runtime got after `missingLayers` were told. */
  readonly landed: ReadonlySet<Digest>;
  /** Pulls at once, all in all. */
  readonly parallel: number;
  /**
   * Whether the runtime reads a layer once for pulls that share it (docs/runtime-facts.md, fact
   * 23). Default false.
   */
  readonly readsSharedOnce?: boolean;
}

/**
 * Carriers of the layers that most bytes of others depend on go first. Of the rest, what the fewest
 * other nodes have goes first when `spread` is given, each node in an order of its own; else the
 * largest, and ties keep the order of the bundle.
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
 * The pulls to start now.
 *
 * INVARIANTS: no two running pulls share a missing layer, since a runtime may read it from the
 * medium once for each (docs/runtime-facts.md, fact 14); something is started whenever something
 * may run and a slot is free. For a runtime that reads a shared layer once, pulls that share one
 * get the slots that are left: their own layers need not wait for it.
 */
export function fittingPulls<Pull extends PullCandidate>(input: ScheduleInput<Pull>): Pull[] {
  const { waiting, running, landed, parallel, readsSharedOnce = false } = input;
  const missing = (pull: PullCandidate) => pull.missingLayers.filter(({ digest }) => !landed.has(digest));
  const busy = new Set(running.flatMap((pull) => missing(pull).map(({ digest }) => digest)));
  const next: Pull[] = [];
  for (const candidate of waiting) {
    if (running.length + next.length >= parallel) break;
    const layers = missing(candidate);
    if (layers.some(({ digest }) => busy.has(digest))) continue;
    for (const { digest } of layers) busy.add(digest);
    next.push(candidate);
  }
  if (!readsSharedOnce) return next;
  const others = waiting.filter((candidate) => !next.includes(candidate));
  return [...next, ...others.slice(0, Math.max(0, parallel - running.length - next.length))];
}

function countCarriers(candidates: readonly PullCandidate[]): ReadonlyMap<Digest, number> {
  const carriers = new Map<Digest, number>();
  for (const candidate of candidates) {
    for (const { digest } of candidate.missingLayers) carriers.set(digest, (carriers.get(digest) ?? 0) + 1);
  }
  return carriers;
}

/** Bytes that other candidates wait for while this one isn't pulled. */
function sharedBytes(candidate: PullCandidate, carriers: ReadonlyMap<Digest, number>): number {
  return candidate.missingLayers.reduce(
    (sum, { digest, sizeBytes }) => sum + sizeBytes * ((carriers.get(digest) ?? 1) - 1),
    0,
  );
}

function sizeOf(candidate: PullCandidate): number {
  return candidate.missingLayers.reduce((sum, layer) => sum + layer.sizeBytes, 0);
}
