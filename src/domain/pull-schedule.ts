import type { Digest } from './digest.ts';

/** An image that is to be pulled, with those of its layers that the runtime has not got. */
export interface PullCandidate {
  readonly reference: string;
  readonly missingLayers: readonly { readonly digest: Digest; readonly sizeBytes: number }[];
}

/** What the schedule looks at. */
export interface ScheduleInput {
  readonly candidates: readonly PullCandidate[];
  /** Pulls that run now. */
  readonly running: readonly PullCandidate[];
  /** Pulls at once, all in all. */
  readonly parallel: number;
}

/**
 * The pulls to start now, as references.
 *
 * INVARIANTS: no two running pulls share a missing layer, since a runtime may read it from the medium once for each (fact 14); something is
 * started whenever something may run and a slot is free. Carriers of the layers that most bytes of others depend on go first, then the
 * largest. Ties keep the order of the bundle.
 */
export function nextPulls({ candidates, running, parallel }: ScheduleInput): string[] {
  const busy = new Set(running.flatMap((pull) => pull.missingLayers.map((layer) => layer.digest)));
  const started = new Set(running.map((pull) => pull.reference));
  const carriers = countCarriers(candidates);
  const ordered = candidates
    .filter((candidate) => !started.has(candidate.reference))
    .map((candidate) => ({ candidate, sharedBytes: sharedBytes(candidate, carriers), sizeBytes: sizeOf(candidate) }))
    .sort((a, b) => b.sharedBytes - a.sharedBytes || b.sizeBytes - a.sizeBytes);
  const next: string[] = [];
  for (const { candidate } of ordered) {
    if (running.length + next.length >= parallel) break;
    if (candidate.missingLayers.some((layer) => busy.has(layer.digest))) continue;
    for (const layer of candidate.missingLayers) busy.add(layer.digest);
    next.push(candidate.reference);
  }
  return next;
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
