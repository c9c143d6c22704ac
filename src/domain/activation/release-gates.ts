import { defined } from '../../platform/defined.ts';
import { isAboveFloor, sequenceOf } from '../adoption/floors.ts';
import { areFilesInstalled, beforeActivate, hasSucceeded } from '../release/hooks.ts';
import { answeredNames, namesOnceActivated, pullsFromElsewhere } from '../release/pulls.ts';
import { commandName, isRetired } from '../release/recorded-phase.ts';
import type { ContentChecks } from '../state/checks.ts';
import { isSameRun } from '../state/hook.ts';
import { isWaiting } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';
import { type GateContext, held, PASS } from './gate.ts';
import { placeIn } from './read-paths.ts';
import type { PathRelease } from './stream-path.ts';
import { isAutomatic } from './timing-gates.ts';

export function trust({ withdrawn }: GateContext) {
  return withdrawn === undefined ? PASS : held('trust/withdrawn', { reason: withdrawn }, 'person');
}

/** A release with a cancelled preload needs all its images. `absent` is how many are missing. */
export function cancellation({ bundle, absentImages }: Pick<GateContext, 'bundle' | 'absentImages'>) {
  if (bundle.cancelled === undefined || absentImages === 0) return PASS;
  return held('engine/cancelled', { absent: absentImages }, 'person', { keepsDue: true });
}

export function denied({ bundle, path }: GateContext) {
  return placeIn(path, bundle).isDenied === true ? held('engine/denied', {}, 'person') : PASS;
}

/** A step below the floor needs a request, or `update.allow_downgrade` for a later release. */
export function floor({ bundle, policy, floors, path }: Pick<GateContext, 'bundle' | 'policy' | 'floors' | 'path'>) {
  const { payload, activationRequestedAt, activatedAt } = bundle;
  const isAutomaticNow =
    isAutomatic(bundle, policy) && activationRequestedAt === undefined && activatedAt === undefined;
  if (!isAutomaticNow || isRetired(bundle) || isAboveFloor(bundle, floors)) return PASS;
  const stream = payload.name;
  const least = floors.sequences.get(stream);
  if (least === undefined || floors.doubted?.has(stream) === true) {
    return held('engine/floor-unknown', { stream }, 'person');
  }
  if (path.allowDowngrade && placeIn(path, bundle).isLate === true) return PASS;
  return held('engine/below-floor', { stream, sequence: sequenceOf(bundle), floor: least }, 'person');
}

/** The highest of several possible releases is activated. `next` is its version. */
export function order(bundle: StoredBundle, next: PathRelease | undefined) {
  if (next === undefined || next.id === bundle.bundleId) return PASS;
  return held('engine/not-next', { next: next.version }, 'event');
}

export function retry({ bundle, failures, now }: Pick<GateContext, 'bundle' | 'failures' | 'now'>) {
  const failed = failures.find(
    (failure) =>
      failure.task.kind === 'activate' && failure.task.bundleId === bundle.bundleId && isWaiting(failure, now),
  );
  if (failed === undefined) return PASS;
  const { attempts, reason, retryAt } = failed;
  const more = defined({ keepsDue: true, checkAgainAt: retryAt });
  const releasedBy = retryAt === undefined ? 'event' : 'time';
  return held('engine/activation-failed', { attempts, reason: reason.code }, releasedBy, more);
}

/**
 * A runtime may list an image whose files a power cut destroyed. So a release waits for a due
 * check, for a check of images that were pulled again, and while its images are damaged. A request
 * after the damage was found ends the wait.
 */
export function content({ bundle, contentChecks: checks }: Pick<GateContext, 'bundle' | 'contentChecks'>) {
  if (checks === undefined) return PASS;
  const references = bundle.contents.images.map(({ reference }) => reference);
  if (checks.isAwaited || references.some((reference) => checks.healed.includes(reference))) {
    return held('engine/content-unchecked', {}, 'event', { keepsDue: true });
  }
  const [image, ...others] = references.filter((reference) => isDamaged(reference, bundle, checks));
  return image === undefined ? PASS : held('engine/content-damaged', { image, more: others.length }, 'event');
}

/** Whether an image is damaged, and its release was not requested since. */
function isDamaged(
  reference: string,
  { activationRequestedAt = 0 }: GateContext['bundle'],
  { results }: ContentChecks,
): boolean {
  const result = results.get(reference);
  return result?.content.kind === 'broken' && activationRequestedAt <= (result.brokenSince ?? 0);
}

/**
 * Another stream's release has this tag. Only giving it up ends the hold. `holder`: `ocp@4.13.7`.
 */
export function foreignTags({ bundle, bundles, foreignTag }: GateContext) {
  if (foreignTag === undefined) return PASS;
  const { tag, holder } = foreignTag;
  const data = { tag, stream: bundle.payload.name, other: holder.payload.name, holder: commandName(holder, bundles) };
  return held('engine/tag-of-other-stream', data, 'person');
}

type Elsewhere =
  | { readonly kind: 'found'; readonly image: string; readonly usedBy: string; readonly more: number }
  | { readonly kind: 'unknown' };

/** Setting `update.pulls_from_elsewhere = "hold"`. Without a network such a pull would fail. */
export function pullsElsewhere(context: Pick<GateContext, 'bundle' | 'bundles' | 'policy' | 'imageUses'>) {
  const data = context.policy.update.pulls_from_elsewhere === 'hold' ? elsewhereIn(context) : undefined;
  return data === undefined ? PASS : held('engine/pulls-from-elsewhere', data, 'event');
}

function elsewhereIn({
  bundle,
  bundles,
  policy,
  imageUses,
}: Parameters<typeof pullsElsewhere>[0]): Elsewhere | undefined {
  if (imageUses === undefined) return { kind: 'unknown' };
  const names = namesOnceActivated(bundle, bundles, policy);
  const [first, ...others] = pullsFromElsewhere(imageUses.uses, names, answeredNames(policy));
  if (first !== undefined) return { kind: 'found', image: first.image, usedBy: first.usedBy, more: others.length };
  return imageUses.isComplete ? undefined : { kind: 'unknown' };
}

/** One release is activated at a time. `bundleId` names the release whose tags move. */
export function tagsInMotion({ bundle, running }: Pick<GateContext, 'bundle' | 'running'>) {
  const other = running.find((task) => task.kind === 'activate' && task.bundleId !== bundle.bundleId);
  if (other === undefined) return PASS;
  return held('engine/tags-in-motion', { bundleId: other.bundleId }, 'event', { keepsDue: true });
}

/** Setting `hooks.before-activate`. The unit starts when no other gate holds the release. */
export function hook({ bundle, policy, hooks }: Pick<GateContext, 'bundle' | 'policy' | 'hooks'>) {
  const run = beforeActivate(bundle, policy);
  if (run === undefined) return PASS;
  const { unit } = run;
  const keepsDue = true;
  // While the unit runs, its success may not be on the disk yet.
  if (hooks.running.some((one) => isSameRun(one, run)))
    return held('hook', { unit, state: 'end' }, 'event', { keepsDue });
  if (hasSucceeded(run, hooks.ledger)) return PASS;
  const failed = hooks.failed.find((one) => isSameRun(one, run));
  if (failed !== undefined) {
    const { attempts, why, retryAt } = failed;
    return held('hook', { unit, state: 'retry', attempts, why }, 'time', { keepsDue, checkAgainAt: retryAt });
  }
  const state = areFilesInstalled(bundle, hooks.installed) ? 'start' : 'files';
  return held('hook', { unit, state }, 'event', { keepsDue });
}
