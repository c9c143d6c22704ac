import { assertNever } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { isReadyToActivate } from '../assess/assess-order.ts';
import { diskFull } from '../preload/space.ts';
import { lackingCount } from '../preload/supply.ts';
import { blobsToForget, type DamagedImage, healable } from '../release/damaged-images.ts';
import { areFilesInstalled, beforeActivate, wantedRuns } from '../release/hooks.ts';
import type { Policy } from '../settings/settings.ts';
import type { CheckCause, ContentChecks, ContentResult } from '../state/checks.ts';
import type { Effect, Healing, LifecycleFinding } from '../state/effect.ts';
import { isSameRun, type ReleaseRun } from '../state/hook.ts';
import { isWaiting, type Memory, type RunningTask } from '../state/memory.ts';
import type { Observed, StoredBundle } from '../state/state.ts';

/**
 * Returns the bundle that STATUS and progress name: one with a running preload, else the first one
 * due, also one whose images are pulled again. One that waits for its medium comes last.
 */
export function bundleInWork(
  { running }: Pick<Memory, 'running'>,
  { bundles }: Assessment,
): BundleAssessment | undefined {
  const isRunning = ({ bundle }: BundleAssessment) => running.some((task) => isPreloadOf(task, bundle));
  const isDue = (entry: BundleAssessment) => entry.phase === 'preloading' || isRepaired(entry);
  const all = [...bundles.filter(isRunning), ...bundles.filter((one) => isDue(one) && one.absentImages.length > 0)];
  return all.find(({ pullableImages }) => pullableImages.length > 0) ?? all[0];
}

function isRepaired({ reason }: BundleAssessment): boolean {
  return reason?.code === 'engine/image-missing' && 'data' in reason && reason.data.next.kind === 'pull';
}

/** The medium of the pull is gone. The runtime may wait long for it. */
export function isCut(task: RunningTask, { bundles }: Assessment): boolean {
  if (task.kind !== 'pull' || task.online === true) return false;
  const entry = bundles.find(({ bundle }) => bundle.bundleId === task.bundleId);
  const isIn = (images: BundleAssessment['absentImages'] = []) =>
    images.some(({ reference }) => reference === task.reference);
  return isIn(entry?.absentImages) && !isIn(entry?.pullableImages);
}

/** False when the runtime only takes an artifact that the node has. */
export function isPreloadOf(task: RunningTask, { bundleId, contents }: StoredBundle): boolean {
  if (task.kind !== 'pull' || task.bundleId !== bundleId) return false;
  return (contents.artifacts ?? []).every(({ reference }) => reference !== task.reference);
}

export function failedPulls({ failures }: Memory, now: number): ReadonlySet<string> {
  return new Set(
    failures.flatMap((failure) =>
      failure.task.kind === 'pull' && isWaiting(failure, now) ? [failure.task.reference] : [],
    ),
  );
}

/** Returns cancelled preloads whose bundle was plugged in since. Other nodes don't count. */
export function resumptions({ media }: Observed, { bundles }: Assessment): Effect[] {
  const isBack = ({ bundle: { bundleId, cancelled } }: BundleAssessment) =>
    media.some(
      ({ mediumId, state, peer }) =>
        state.kind === 'read' &&
        peer === undefined &&
        cancelled?.media.includes(mediumId) === false &&
        state.bundles.some((found) => found.kind === 'verified' && found.bundle.bundleId === bundleId),
    );
  return bundles
    .filter(({ bundle }) => bundle.cancelled !== undefined)
    .filter((entry) => lackingCount(entry) === 0 || isBack(entry))
    .map(({ bundle }) => ({ kind: 'resume-preload', bundleId: bundle.bundleId }));
}

/**
 * Returns removed media of cancellations: folders keep their id, and sticks may get theirs again.
 */
export function mediaLeft({ media }: Observed, { areMediaUnread }: Memory, { bundles }: Assessment): Effect[] {
  if (areMediaUnread === true) return [];
  const plugged = new Set(media.map(({ mediumId }) => mediumId));
  return bundles.flatMap(({ bundle: { bundleId, cancelled } }): Effect[] => {
    const stayed = cancelled?.media.filter((mediumId) => plugged.has(mediumId));
    return cancelled === undefined || stayed === undefined || stayed.length === cancelled.media.length
      ? []
      : [{ kind: 'record-media-left', bundleId, media: stayed }];
  });
}

export function cancelledPulls({ running }: Pick<Memory, 'running'>, { bundles }: Assessment): Effect[] {
  const cancelled = new Set(bundles.flatMap(({ bundle }) => (bundle.cancelled === undefined ? [] : [bundle.bundleId])));
  return running
    .filter((task) => task.kind === 'pull' && cancelled.has(task.bundleId))
    .map((task) => ({ kind: 'cancel', task }));
}

const HOLDS_MS = 10 * 60_000;

/** The pause after the first check without a result. Each further pause is four times as long. */
const UNKNOWN_MS = 60_000;
const UNKNOWN_GROWTH = 4;
const UNKNOWN_MAX_MS = 24 * 3_600_000;

export interface CheckDue {
  readonly cause: Exclude<CheckCause, 'request'>;
  readonly references?: readonly string[];
}

interface ContentPlan {
  readonly effects: readonly Effect[];
  readonly check?: CheckDue;
}

/**
 * Starts a check when one is due. Recently checked damaged images are removed if they can be pulled
 * again. Images that could not be checked are checked again later. While images are pulled or
 * activated (not `isAtRest`) only an overdue check starts.
 */
export function contentPlan(
  memory: Memory,
  { damaged, bundles }: Assessment,
  { now, isAtRest }: { readonly now: number; readonly isAtRest: boolean },
): ContentPlan {
  const { contentChecks: checks, pullChecks } = memory;
  if (checks === undefined || checks.running !== undefined || !(isAtRest || checks.isOverdue)) return NOTHING;
  // A test pull of an image that is being removed would restore its damage.
  if (pullChecks?.isRunning === true) return NOTHING;
  if (checks.isAwaited) return DUE;
  if (diskFull(memory, now) !== undefined) return NOTHING;
  const ready = isAtRest ? healable(damaged) : [];
  const stale = ready.filter(({ image }) => !isFresh(image.reference, checks, now));
  if (stale.length > 0) return checkAgain(stale.map(({ image }) => image.reference));
  if (ready.length > 0) return { effects: [{ kind: 'heal-images', images: ready.flatMap(healingOf) }] };
  const back = checks.healed.filter((reference) => !isAbsent(reference, bundles));
  if (back.length > 0) return checkAgain(back);
  if (!checks.isDue) return NOTHING;
  if (checks.endedAt === undefined) return DUE;
  const unknown = [...checks.results].filter(([, result]) => isUnknownLong(result, now)).map(([name]) => name);
  return unknown.length > 0 ? checkAgain(unknown) : NOTHING;
}

const NOTHING: ContentPlan = { effects: [] };
const DUE: ContentPlan = { effects: [], check: { cause: 'unclean-boot' } };

function checkAgain(references: readonly string[]): ContentPlan {
  return { effects: [], check: { cause: 'again', references } };
}

function isAbsent(reference: string, bundles: Assessment['bundles']): boolean {
  return bundles.some(({ absentImages }) => absentImages.some((image) => image.reference === reference));
}

/** Allows for a time in the future, since the wall clock may be set back. */
function isUnknownLong({ at, content, unknownChecks = 1 }: ContentResult, now: number): boolean {
  if (content.kind !== 'unknown') return false;
  return at > now || now - at >= Math.min(UNKNOWN_MAX_MS, UNKNOWN_MS * UNKNOWN_GROWTH ** (unknownChecks - 1));
}

/** Allows for a time in the future, since the wall clock may be set back. */
function isFresh(reference: string, { results }: ContentChecks, now: number): boolean {
  const at = results.get(reference)?.at ?? Number.NEGATIVE_INFINITY;
  return at <= now && now - at < HOLDS_MS;
}

function healingOf(damage: DamagedImage): Healing[] {
  const { image, bundles, next } = damage;
  const [bundle] = bundles;
  if (next.kind !== 'heal' || bundle === undefined) return [];
  const { reference } = image;
  return [defined({ reference, bundleId: bundle.bundleId, forget: blobsToForget(damage), removal: next.removal })];
}

/**
 * Returns the hooks to start now: `before-activate` of the first release that nothing else holds,
 * and those that report events. A unit runs for one release at a time, and a failed one waits. All
 * except `rolled-back` and `degraded` wait for the attached files of their release.
 */
export function hookEffects(
  { hooks }: Memory,
  { bundles }: Assessment,
  policy: Policy,
  { now, canActivate }: { readonly now: number; readonly canActivate: boolean },
): Effect[] {
  const isResting = (run: ReleaseRun) => hooks.failed.some((one) => isSameRun(one, run) && isWaiting(one, now));
  const stored = bundles.map(({ bundle }) => bundle);
  const isSupplied = (bundle: StoredBundle) => areFilesInstalled(bundle, hooks.installed);
  const next = bundles
    .filter((entry) => canActivate && isReadyToActivate(entry) && entry.holds.length > 0)
    .filter(({ holds }) => holds.every(({ code }) => code === 'hook'))
    .filter(({ bundle }) => isSupplied(bundle))
    .flatMap(({ bundle }) => beforeActivate(bundle, policy) ?? [])
    .find((run) => !isResting(run));
  const waiting = new Set(stored.filter((bundle) => !isSupplied(bundle)).map(({ bundleId }) => bundleId));
  const reports = wantedRuns(stored, hooks, policy).filter(
    ({ hook, bundleId }) => hook === 'rolled-back' || hook === 'degraded' || !waiting.has(bundleId),
  );
  const busy = new Set(hooks.running.map(({ unit }) => unit));
  return [...(next === undefined ? [] : [next]), ...reports]
    .filter((run) => !isResting(run))
    .flatMap((run): Effect[] => {
      if (busy.has(run.unit)) return [];
      busy.add(run.unit);
      return [{ kind: 'run-hook', run }];
    });
}

export function lifecycleEffect(
  finding: LifecycleFinding,
  { remove_images: removeImages }: Pick<Policy['lifecycle'], 'remove_images'>,
): Effect {
  const { bundleId } = finding;
  switch (finding.kind) {
    case 'same-images':
      return { kind: 'take-over', bundleId, from: finding.twin, retireFrom: !finding.isTwinKept };
    case 'clock-changed':
      return { kind: 'record-soak', bundleId, soak: finding.soak };
    case 'runs':
      return { kind: 'record-active', bundleId };
    case 'soaked':
      return { kind: 'record-proven', bundleId };
    case 'unseen-for-long':
      return { kind: 'record-proven', bundleId, soak: finding.soak };
    case 'went-back':
      return { kind: 'record-rolled-back', bundleId, to: finding.to };
    case 'runs-unrequested':
      return { kind: 'request-activation', bundleId, components: finding.components };
    case 'spare':
      return defined({ kind: 'retire', bundleId, removeImages, roomFor: finding.roomFor });
    case 'incomplete':
      return { kind: 'retire', bundleId, removeImages, isIncomplete: true };
    case 'over':
      return { kind: 'forget-release', bundleId };
    case 'removable':
      return defined({
        kind: 'remove-images',
        bundleId,
        images: finding.images,
        areOfNode: finding.areOfNode,
        tags: finding.tags,
        stopped: finding.stopped,
      });
    default:
      return assertNever(finding);
  }
}
