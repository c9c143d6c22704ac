import { defined } from '../../../platform/defined.ts';
import { isFirstHand, type Pause, type SharedPause } from '../../fleet/pause.ts';
import { bundleTitle } from '../../model/bundle.ts';

export function pausedTitle({ name, version }: Pick<SharedPause, 'name' | 'version'>): string {
  return version === undefined ? name : bundleTitle({ name, version });
}

/** Who said it where, and which other node passed that on. */
export function saidByText(one: Pick<Pause, 'by' | 'node' | 'from'>): string {
  return `${one.by} on ${one.node}${isFirstHand(one) ? '' : `, as ${one.from} says`}`;
}

/** The same of who lifted it. */
export function liftedByText({ by, node }: NonNullable<Pause['lifted']>, from: string | undefined): string {
  return saidByText(defined({ by, node, from }));
}
