import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
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

/** References of images whose pull failed and must not be tried yet. */
export function failedPulls({ failures }: Pick<Memory, 'failures'>, now: number): ReadonlySet<string> {
  return new Set(
    failures.flatMap((failure) =>
      failure.task.kind === 'pull' && isWaiting(failure, now) ? [failure.task.reference] : [],
    ),
  );
}
