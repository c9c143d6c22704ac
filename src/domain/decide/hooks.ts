import type { Assessment } from '../assess/assess.ts';
import { isReadyToActivate } from '../assess/assess-order.ts';
import { beforeActivate, wantedRuns } from '../release/hooks/hook-runs.ts';
import { areFilesInstalled } from '../release/hooks/release-folder.ts';
import type { Policy } from '../settings/settings.ts';
import type { Effect } from '../state/effect.ts';
import { type HookRun, isSameRun } from '../state/hook.ts';
import type { Memory } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';
import { isWaiting } from '../state/waiting.ts';

/**
 * The hooks that are started now: `before-activate` of the first release that nothing else holds,
 * and those that report events. A unit runs for one release at a time. One that failed waits. All
 * except `rolled-back` and `degraded` wait for the attached files of their release.
 *
 * @param canActivate whether the runtime lets anything be activated now
 */
export function hookEffects(
  { hooks }: Pick<Memory, 'hooks'>,
  { bundles }: Assessment,
  policy: Policy,
  { now, canActivate }: { readonly now: number; readonly canActivate: boolean },
): Effect[] {
  const isResting = (run: HookRun) => hooks.failed.some((one) => isSameRun(one, run) && isWaiting(one, now));
  const stored = bundles.map(({ bundle }) => bundle);
  const isSupplied = (bundle: StoredBundle) => areFilesInstalled(bundle, hooks.installed);
  const next = bundles
    .filter((entry) => canActivate && isReadyToActivate(entry) && entry.holds.length > 0)
    .filter(({ holds }) => holds.every(({ code }) => code === 'hook'))
    .filter(({ bundle }) => isSupplied(bundle))
    .flatMap(({ bundle }) => beforeActivate(bundle, policy) ?? [])
    .find((run) => !isResting(run));
  const waiting = new Set(stored.filter((bundle) => !isSupplied(bundle)).map(({ bundleId }) => bundleId));
  const telling = wantedRuns(stored, hooks, policy).filter(
    ({ hook, bundleId }) => hook === 'rolled-back' || hook === 'degraded' || !waiting.has(bundleId),
  );
  const busy = new Set(hooks.running.map(({ unit }) => unit));
  return [...(next === undefined ? [] : [next]), ...telling]
    .filter((run) => !isResting(run))
    .flatMap((run): Effect[] => {
      if (busy.has(run.unit)) return [];
      busy.add(run.unit);
      return [{ kind: 'run-hook', run }];
    });
}
