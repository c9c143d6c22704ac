import { labelOf, type Reason } from '../model/reason.ts';
import type { TaskFailure } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';

/** The pulls of images of a bundle that the node's policy.json refused. */
export function refusalsOf(
  { contents }: Pick<StoredBundle, 'contents'>,
  failures: readonly TaskFailure[],
): readonly TaskFailure[] {
  const references = new Set(contents.images.map(({ reference }) => reference));
  return failures.filter(
    ({ task, reason }) => task.kind === 'pull' && reason.code === 'runtime/policy' && references.has(task.reference),
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
