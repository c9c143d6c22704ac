import type { Phase } from '../model/phase.ts';
import type { FleetNode } from './fleet-view.ts';
import type { ReleaseStatus } from './node-status.ts';

/** How far nodes are waited for: the words of `stickpin fleet wait --for`. */
export const WAIT_GOALS = ['ready', 'activated', 'active', 'proven'] as const;

/** A goal of waiting. */
export type WaitGoal = (typeof WAIT_GOALS)[number];

/** The phases with which a goal is reached. */
const REACHED: Readonly<Record<WaitGoal, ReadonlySet<Phase>>> = {
  ready: new Set(['ready', 'activated', 'active', 'proven', 'superseded']),
  activated: new Set(['activated', 'active', 'proven', 'superseded']),
  active: new Set(['active', 'proven', 'superseded']),
  proven: new Set(['proven', 'superseded']),
};

/** A node that has not come as far as wanted. `release`: how far it is; absent when it lacks it. */
export interface LaggingNode {
  readonly node: FleetNode;
  readonly release?: ReleaseStatus;
}

/** The nodes that have not reached the goal with a release, by name. Absent nodes count too. */
export function laggingNodes(
  nodes: readonly FleetNode[],
  wanted: { readonly name: string; readonly version: string },
  goal: WaitGoal,
): readonly LaggingNode[] {
  return nodes.flatMap((node) => {
    const all = node.status?.releases ?? [];
    const releases = all.filter(({ name, version }) => name === wanted.name && version === wanted.version);
    if (releases.some(({ phase }) => REACHED[goal].has(phase))) return [];
    const release = releases.find(({ phase }) => phase !== 'retired') ?? releases[0];
    return [{ node, ...(release !== undefined && { release }) }];
  });
}
