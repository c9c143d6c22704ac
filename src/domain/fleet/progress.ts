import type { Phase } from '../model/phase.ts';
import type { FleetNode, FleetView } from './fleet-view.ts';
import { isInForce } from './in-force.ts';
import { isLoaded } from './loaded.ts';
import type { ReleaseStatus } from './node-status.ts';
import { isPast } from './past.ts';

/** How far nodes are waited for: the words of `stickpin fleet wait --for`. */
export const WAIT_GOALS = ['ready', 'activated', 'active', 'proven'] as const;

/** A goal of waiting. */
export type WaitGoal = (typeof WAIT_GOALS)[number];

/** The phases with which a goal is reached. A release is ready as its label says. */
const REACHED: Readonly<Record<Exclude<WaitGoal, 'ready'>, ReadonlySet<Phase>>> = {
  activated: new Set(['activated', 'active', 'proven', 'superseded']),
  active: new Set(['active', 'proven', 'superseded']),
  proven: new Set(['proven', 'superseded']),
};

/** A node that has not come as far as wanted. `release`: how far it is; absent when it lacks it. */
export interface LaggingNode {
  readonly node: FleetNode;
  readonly release?: ReleaseStatus;
}

/**
 * The nodes that have not reached the goal with a release, by name. Absent nodes count too, and
 * those that went back from it.
 */
export function laggingNodes(
  nodes: readonly FleetNode[],
  wanted: { readonly name: string; readonly version: string },
  goal: WaitGoal,
): readonly LaggingNode[] {
  return nodes.flatMap((node) => {
    const all = node.status?.releases ?? [];
    const releases = all.filter(({ name, version }) => name === wanted.name && version === wanted.version);
    const hasGoneOn = isPast(node.status, wanted);
    if (releases.some((release) => hasReached(release, goal, hasGoneOn))) return [];
    const release = releases.find(({ phase }) => phase !== 'retired') ?? releases[0];
    return [{ node, ...(release !== undefined && { release }) }];
  });
}

/**
 * Whether there may be nodes that nobody has told of: no other node is known, and the Kubernetes
 * API can't show that this one is alone.
 */
export function mayHaveOthers({ self, nodes, apiTrouble }: Pick<FleetView, 'self' | 'nodes' | 'apiTrouble'>): boolean {
  return nodes.length === 0 || (apiTrouble !== undefined && nodes.every(({ name }) => name === self));
}

/** @param hasGoneOn the node has a later release of the stream in force */
function hasReached(release: ReleaseStatus, goal: WaitGoal, hasGoneOn: boolean): boolean {
  if (goal === 'ready') return isLoaded(release);
  return REACHED[goal].has(release.phase) && (hasGoneOn || isInForce(release));
}
