import { labelOf, type Reason } from '../model/reason.ts';
import type { TaskFailure } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';

/** The pulls of a bundle that the node's policy.json refused. */
export function refusalsOf(
  { bundleId }: Pick<StoredBundle, 'bundleId'>,
  failures: readonly TaskFailure[],
): readonly TaskFailure[] {
  return failures.filter(
    ({ task, reason }) => task.kind === 'pull' && task.bundleId === bundleId && reason.code === 'runtime/policy',
  );
}

/** One reason for all refusals of a bundle: the only one, or the first with their number. */
export function refusalReason(
  { payload }: Pick<StoredBundle, 'payload'>,
  [first, ...others]: readonly TaskFailure[],
): Reason | undefined {
  if (first === undefined || others.length === 0) return first?.reason;
  const images = others.length + 1;
  return { code: 'runtime/policy', data: { bundle: labelOf(payload), images, first: first.reason } };
}
