import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { type TagGoal, tagGoalsOf } from '../release/tags.ts';
import type { Memory } from '../state/memory.ts';
import { isWaiting } from '../state/waiting.ts';

/**
 * The bundle whose images are being pulled: one of which something runs, else the first that is to
 * be preloaded. STATUS and progress speak of it.
 */
export function bundleInWork(
  { running }: Pick<Memory, 'running'>,
  { bundles }: Assessment,
): BundleAssessment | undefined {
  const isRunning = ({ bundle }: BundleAssessment) =>
    running.some((task) => task.kind === 'pull' && task.bundleId === bundle.bundleId);
  return (
    bundles.find(isRunning) ?? bundles.find((entry) => entry.phase === 'preloading' && entry.absentImages.length > 0)
  );
}

/** Whether activation is due and all that it needs is there. */
export function isReadyToActivate({ activationDue, absentImages, unpinnedImages }: BundleAssessment): boolean {
  return activationDue && absentImages.length === 0 && unpinnedImages.length === 0;
}

/**
 * The bundle that is activated: the one whose activation runs, else the first that is ready for it
 * and that no gate holds.
 */
export function activationTarget(
  { running: tasks }: Pick<Memory, 'running'>,
  { bundles }: Assessment,
): BundleAssessment | undefined {
  const running = tasks.find((task) => task.kind === 'activate');
  if (running !== undefined)
    return bundles.find((entry) => entry.bundle.bundleId === running.bundleId && entry.withdrawn === undefined);
  return bundles.find((entry) => isReadyToActivate(entry) && entry.holds.length === 0);
}

/**
 * The tags that are being set or will be set next: those of the bundle to activate, otherwise the
 * lost tags of a release. The registry serves only these, so catalog and task must use the same
 * ones.
 */
export function tagsInWork(memory: Pick<Memory, 'running'>, assessment: Assessment): readonly TagGoal[] {
  const target = activationTarget(memory, assessment);
  if (target !== undefined) return tagGoalsOf(target.bundle);
  const running = memory.running.find((task) => task.kind === 'restore-tags');
  if (running === undefined) return assessment.tags.due;
  const entry = assessment.bundles.find(({ bundle }) => bundle.bundleId === running.bundleId);
  if (entry === undefined || entry.withdrawn !== undefined) return [];
  return tagGoalsOf(entry.bundle).filter(({ tag }) => running.tags.includes(tag));
}

/** References of images whose pull failed and must not be tried yet. */
export function failedPulls({ failures }: Pick<Memory, 'failures'>, now: number): ReadonlySet<string> {
  return new Set(
    failures.flatMap((failure) =>
      failure.task.kind === 'pull' && isWaiting(failure, now) ? [failure.task.reference] : [],
    ),
  );
}
