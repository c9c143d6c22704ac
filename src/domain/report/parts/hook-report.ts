import { formatDuration } from '../../../platform/sizes.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleName, bundleTitle } from '../../model/bundle.ts';
import type { BundleId } from '../../model/digest.ts';
import type { HookMemory, HookRun } from '../../state/hook.ts';
import { isAwaited } from '../hold-text.ts';
import { hookFailureText } from '../texts/hook-text.ts';

/** A hook that runs, waits to be tried again, or failed and is not tried again. */
export interface HookReport {
  readonly hook: string;
  readonly unit: string;
  readonly state: 'running' | 'retrying' | 'failed';
  /** `name@version` of its release. */
  readonly bundle: string;
  /** Since when it runs, when it is tried again, or when it failed (RFC 3339). */
  readonly at: string;
  /** Why it failed. */
  readonly message?: string;
}

type Bundles = readonly Pick<BundleAssessment, 'bundle' | 'phase' | 'isAskedFor'>[];

/** What is to be told of hooks now; empty while none runs and the last run of each was good. */
export function hookReports({ running, failed, ledger }: HookMemory, bundles: Bundles): readonly HookReport[] {
  const nameOf = (bundleId: BundleId) => {
    const found = bundles.find(({ bundle }) => bundle.bundleId === bundleId);
    return found === undefined ? bundleId : bundleName(found.bundle.payload);
  };
  const about = ({ hook, unit, bundleId }: Omit<HookRun, 'event'>) => ({ hook, unit, bundle: nameOf(bundleId) });
  return [
    ...running.map((run) => ({ ...about(run), state: 'running' as const, at: timeText(run.startedAt) })),
    ...failed.map((run) => ({
      ...about(run),
      state: 'retrying' as const,
      at: timeText(run.retryAt),
      message: hookFailureText(run.unit, run.why),
    })),
    ...[...ledger].flatMap(([hook, { unit, failure }]) =>
      failure === undefined
        ? []
        : [
            {
              ...about({ hook, unit, bundleId: failure.bundleId }),
              state: 'failed' as const,
              at: timeText(failure.at),
              message: hookFailureText(unit, failure.why),
            },
          ],
    ),
  ];
}

/**
 * What STATUS adds about hooks, a sentence each. `before-activate` of a release that is awaited is
 * told with that release.
 */
export function hookNotes({ running, failed, ledger }: HookMemory, bundles: Bundles, now: number): readonly string[] {
  const isToldElsewhere = ({ hook, bundleId }: HookRun) =>
    hook === 'before-activate' && bundles.some((entry) => entry.bundle.bundleId === bundleId && isAwaited(entry));
  const titleOf = (bundleId: BundleId) => {
    const found = bundles.find(({ bundle }) => bundle.bundleId === bundleId);
    return found === undefined ? 'a release' : bundleTitle(found.bundle.payload);
  };
  const broken = [...ledger].filter(([, { failure }]) => failure !== undefined).map(([hook]) => hook);
  const retried = failed.filter((run) => !isToldElsewhere(run)).map(({ hook }) => hook);
  const bad = [...new Set([...broken, ...retried])];
  return [
    ...running
      .filter((run) => !isToldElsewhere(run))
      .map(({ hook, unit, bundleId, startedAt }) => {
        const since = formatDuration(Math.max(0, now - startedAt));
        return `Waiting for hook ${hook} of ${titleOf(bundleId)} (${unit}), for ${since} now.`;
      }),
    ...(bad.length === 0 ? [] : [`Hook ${bad.join(', ')} failed: see 'stickpin status'.`]),
  ];
}

function timeText(time: number): string {
  return new Date(time).toISOString();
}
