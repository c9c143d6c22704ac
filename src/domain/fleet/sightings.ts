import * as v from 'valibot';
import type { Phase } from '../model/condition.ts';
import { isActivated, isInForce, isMoving } from './awaited-node.ts';
import type { FleetNode, FleetView, ReleaseStatus } from './node-status.ts';

/** A release on another node, as this node sees it. Another node has no say in a time. */
export interface Sighting {
  /** How long it has run well without a break, in milliseconds; absent while it does not. */
  readonly wellMs?: number | undefined;
  /** The longest of these times. */
  readonly longestMs: number;
  /** How long the Node has not been `Ready` with the release; absent while it is, or is unknown. */
  readonly illMs?: number | undefined;
  /** The Node was `Ready` when the activation began, or since. */
  readonly wasWell: boolean;
  readonly disturbedMs?: number | undefined;
  /** Uptime of this machine when it was last seen, in milliseconds; absent after a restart. */
  readonly atMs?: number | undefined;
}

/** By {@link sightingKey}. */
export type Sightings = ReadonlyMap<string, Sighting>;

export const NO_SIGHTINGS: Sightings = new Map();

/** @param bundle the first 16 hex digits of its id */
export function sightingKey(node: string, bundle: string): string {
  return `${bundle} ${node}`;
}

/** A longer gap between two observations does not count. */
const LONGEST_GAP_MS = 180_000;

/**
 * Adds what is seen now. A restart of containers, a failure of the node and another activation
 * begin the time anew. While the fleet process does not answer, nothing changes.
 *
 * @param nowMs uptime of this machine
 */
export function sightingsAfter(before: Sightings, view: FleetView | undefined, nowMs: number): Sightings {
  if (view === undefined) return before;
  const ready = readyNodes(view);
  const next = new Map<string, Sighting>();
  for (const node of view.nodes) {
    if (node.name === view.self) continue;
    for (const release of node.status?.releases ?? []) {
      if (OVER.has(release.phase)) continue;
      const key = sightingKey(node.name, release.bundle);
      next.set(key, sighting(before.get(key), { node, release, isReady: ready.get(node.name), nowMs }));
    }
  }
  return next;
}

const OVER: ReadonlySet<Phase> = new Set(['rejected', 'superseded', 'retired']);

interface Seen {
  readonly node: FleetNode;
  readonly release: ReleaseStatus;
  readonly isReady: boolean | undefined;
  readonly nowMs: number;
}

function sighting(before: Sighting | undefined, { node, release, isReady, nowMs }: Seen): Sighting {
  const { disturbedMs } = release;
  const { longestMs = 0, wasWell = false } = before ?? {};
  const sinceMs = nowMs - (before?.atMs ?? Number.NEGATIVE_INFINITY);
  const passedMs = sinceMs >= 0 && sinceMs <= LONGEST_GAP_MS ? sinceMs : 0;
  const now = { longestMs, wasWell, disturbedMs, atMs: nowMs };
  if (!isInForce(release)) {
    if (isMoving(release) && before !== undefined) return now;
    return { ...now, longestMs: 0, wasWell: isReady ?? wasWell };
  }
  if (isReady === false) return { ...now, illMs: before?.illMs === undefined ? 0 : before.illMs + passedMs };
  if (!isActivated(release)) return now;
  const isHeard = isReady === true || (node.isSilent !== true && !node.isAbsent);
  const isShown = isReady === true || isProof(release) || before?.illMs === undefined;
  // Nothing is known of it now.
  if (before !== undefined && !(isHeard && isShown)) return { ...before, atMs: nowMs };
  const wellMs = before?.wellMs !== undefined && before.disturbedMs === disturbedMs ? before.wellMs + passedMs : 0;
  return { ...now, wellMs, longestMs: Math.max(longestMs, wellMs), wasWell: wasWell || isReady === true };
}

const kept = v.array(
  v.tuple([
    v.string(),
    v.object({
      wellMs: v.optional(v.number()),
      longestMs: v.number(),
      wasWell: v.boolean(),
      disturbedMs: v.optional(v.number()),
    }),
  ]),
);

/**
 * Those that ran a release well for the longest time: canaries do, and all other times are short.
 */
const MOST_KEPT = 64;

/** What is kept over a restart, as JSON. Uptimes and what is not well are not. */
export function sightingsText(sightings: Sightings): string {
  const longest = [...sightings].filter(([, { longestMs }]) => longestMs > 0);
  longest.sort(([, a], [, b]) => b.longestMs - a.longestMs);
  const all = longest.slice(0, MOST_KEPT).map(([key, { wellMs, longestMs, wasWell, disturbedMs }]) => {
    return [key, { wellMs, longestMs, wasWell, disturbedMs }] as const;
  });
  return JSON.stringify(all);
}

/** None where it can't be read: all times begin anew. */
export function parseSightings(text = '[]'): Sightings {
  const parsed = v.safeParse(v.pipe(v.string(), v.parseJson(), kept), text);
  return parsed.success ? new Map(parsed.output) : NO_SIGHTINGS;
}

/** Whether a release has proved itself, or no containers can show that. */
export function isProof({ phase, runs }: ReleaseStatus): boolean {
  return phase === 'proven' || runs === undefined;
}

/**
 * Whether the kubelet of each node is `Ready`; undefined where that is not known. When no node is
 * `Ready`, that says nothing about a release: the nodes may need it to become `Ready`.
 */
export function readyNodes(view: FleetView): ReadonlyMap<string, boolean | undefined> {
  const of = ({ facts }: FleetNode) => (view.apiTrouble === undefined ? facts?.isReady : undefined);
  const isAnyReady = view.nodes.some((node) => of(node) === true);
  return new Map(view.nodes.map((node) => [node.name, isAnyReady ? of(node) : undefined]));
}
