import { defined } from '../../../platform/defined.ts';
import type { FleetView } from '../../fleet/node-status.ts';
import { isFirstHand, type Pause, type SharedPause } from '../../fleet/pause.ts';
import { bundleTitle } from '../../model/bundle.ts';

export function pausedTitle({ name, version }: SharedPause): string {
  return version === undefined ? name : bundleTitle({ name, version });
}

/** Where else a pause can be lifted. Without the Kubernetes API nobody knows of a control plane. */
export function orControlPlane({ keys }: FleetView): string {
  return keys === undefined ? ' or a node of the control plane' : '';
}

/** Names the author and the node of a pause, and the node that passed it on. */
export function saidByText(one: Pick<Pause, 'by' | 'node' | 'from'>): string {
  return `${one.by} on ${one.node}${isFirstHand(one) ? '' : `, as ${one.from} says`}`;
}

/** Like {@link saidByText}, for a lifted pause. */
export function liftedByText({ by, node }: NonNullable<Pause['lifted']>, from: string | undefined): string {
  return saidByText(defined({ by, node, from }));
}
