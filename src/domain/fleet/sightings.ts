import { isActivated } from './awaited-node.ts';
import type { FleetNode, FleetView, ReleaseStatus } from './node-status.ts';

/** Of an activated release on another node, as this node sees it. */
export interface Sighting {
  /** `well`: it runs where containers show it, and the Node is `Ready` where that is known. */
  readonly kind: 'well' | 'ill';
  /** Uptime of this machine, in milliseconds. Another node has no say in it. */
  readonly sinceMs: number;
  readonly disturbedMs: number | undefined;
}

/** By {@link sightingKey}. */
export type Sightings = ReadonlyMap<string, Sighting>;

export const NO_SIGHTINGS: Sightings = new Map();

/** @param bundle the first 16 hex digits of its id */
export function sightingKey(node: string, bundle: string): string {
  return `${bundle} ${node}`;
}

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
      if (!isActivated(release)) continue;
      const key = sightingKey(node.name, release.bundle);
      next.set(key, sighting(before.get(key), release, ready.get(node.name), nowMs));
    }
  }
  return next;
}

function sighting(
  before: Sighting | undefined,
  { disturbedMs }: ReleaseStatus,
  isReady: boolean | undefined,
  nowMs: number,
): Sighting {
  const kind = isReady === false ? 'ill' : 'well';
  const isSame = before?.kind === kind && (kind === 'ill' || before.disturbedMs === disturbedMs);
  return isSame ? before : { kind, sinceMs: nowMs, disturbedMs };
}

/**
 * Whether the kubelet of each node is `Ready`; undefined where that is not known. When no node is
 * `Ready`, that says nothing about a release: the nodes may need it to become `Ready`.
 */
export function readyNodes(view: Pick<FleetView, 'nodes' | 'apiTrouble'>): ReadonlyMap<string, boolean | undefined> {
  const of = ({ facts }: FleetNode) => (view.apiTrouble === undefined ? facts?.isReady : undefined);
  const isAnyReady = view.nodes.some((node) => of(node) === true);
  return new Map(view.nodes.map((node) => [node.name, isAnyReady ? of(node) : undefined]));
}
