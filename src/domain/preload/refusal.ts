import type { Reason } from '../model/medium.ts';
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

/**
 * One reason for all refusals of a bundle: the first, with their number. @param title as `ocp
 * 4.13.7`
 */
export function refusalReason(title: string, [first, ...others]: readonly TaskFailure[]): Reason | undefined {
  if (first === undefined || others.length === 0) return first?.reason;
  const message = `policy.json of this node refuses ${others.length + 1} images of ${title}; first: ${first.reason.message}`;
  return { code: first.reason.code, message };
}
