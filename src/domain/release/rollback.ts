import { defined } from '../../platform/defined.ts';
import { labelOf, type ReleaseReason } from '../model/reason.ts';
import type { Policy } from '../settings/settings.ts';
import type { LifecycleFinding } from '../state/effect.ts';
import type { Soak } from '../state/release-record.ts';
import { ofStream, type StoredBundle } from '../state/state.ts';
import { type ContainerView, componentNames, componentsById, imageIdOf, isAttested } from './evidence.ts';
import { currentIds, isProven, isRequested, isRolledBack, isTwin, keptBundles, wasActive } from './recorded-phase.ts';

/** How long only the earlier release must run. A shorter soak time wins. */
const BACK_MS = 60_000;

/** How often containers are listed while all is proven. A shorter soak time wins. */
const LOOK_MS = 600_000;

interface RollbackEvidence {
  readonly soak: Soak;
  readonly findings: readonly LifecycleFinding[];
  /** Milliseconds from now until the evidence counts. */
  readonly dueInMs: number | undefined;
}

export function provenWithFallback(bundles: readonly StoredBundle[]): readonly StoredBundle[] {
  const current = currentIds(bundles);
  return bundles.filter(
    (bundle) =>
      current.has(bundle.bundleId) &&
      isProven(bundle) &&
      !isRolledBack(bundle) &&
      releasesBefore(bundle, bundles).length > 0,
  );
}

/** Whether to list containers again although all is proven, since a proven release may go back. */
export function isContainerCheckDue(
  bundles: readonly StoredBundle[],
  sinceListMs: number,
  { soak: soakMs }: Pick<Policy['lifecycle'], 'soak'>,
): boolean {
  const isTime = isListTime(sinceListMs, soakMs);
  return provenWithFallback(bundles).some(({ soak }) => isTime || soak?.backSinceMs !== undefined);
}

export function isListTime(sinceListMs: number, soakMs: number): boolean {
  return sinceListMs >= Math.min(LOOK_MS, soakMs);
}

/**
 * A job ends and a node is drained, so vanished containers are not enough: a component that ran
 * from the release must have a later container from an image of the older one.
 *
 * @param seen the release's clock after this observation
 */
export function rollbackOfUnproven(bundle: StoredBundle, seen: Soak, view: ContainerView): RollbackEvidence {
  const isBack = (older: StoredBundle) => componentsBack(bundle, older, seen, view).size > 0;
  const older =
    wasActive(bundle) && !isAnyLeft(seen) ? releasesBefore(bundle, view.stored.bundles).find(isBack) : undefined;
  return after(bundle, seen, older, view);
}

/**
 * A proven release may be drained at any time while an image of the older one is tested. So all
 * components that ran from it when it was proven must run from the older one again, as far as that
 * has them.
 *
 * @param isRunning whether any container runs from the release
 */
export function rollbackOfProven(
  bundle: StoredBundle,
  isRunning: boolean,
  view: ContainerView,
): RollbackEvidence | undefined {
  const { soak } = bundle;
  if (soak === undefined) return undefined;
  const ran = soak.components
    .filter(({ counts, runs }) => counts && !runs.every(isAttested))
    .map(({ component }) => component);
  const isBack = (older: StoredBundle) => {
    const has = componentNames(older);
    const back = componentsBack(bundle, older, soak, view);
    return back.size > 0 && ran.every((component) => back.has(component) || !has.has(component));
  };
  const older = isRunning ? undefined : releasesBefore(bundle, view.stored.bundles).find(isBack);
  const { backSinceMs, ...withoutReturn } = soak;
  const { bootId } = view.observed.boot;
  const known = backSinceMs !== undefined && soak.bootId === bootId ? { backSinceMs } : {};
  return after(bundle, older === undefined ? withoutReturn : { ...withoutReturn, ...known, bootId }, older, view);
}

function after(
  { bundleId }: StoredBundle,
  { backSinceMs, ...soak }: Soak,
  older: StoredBundle | undefined,
  { observed: { boot }, policy: { lifecycle } }: ContainerView,
): RollbackEvidence {
  if (older === undefined) return { soak, findings: [], dueInMs: undefined };
  const since = backSinceMs ?? boot.uptimeMs;
  const dueInMs = since + Math.min(BACK_MS, lifecycle.soak) - boot.uptimeMs;
  const back = { ...soak, backSinceMs: since };
  if (dueInMs > 0) return { soak: back, findings: [], dueInMs };
  return { soak: back, findings: [{ kind: 'went-back', bundleId, to: older.bundleId }], dueInMs: undefined };
}

/** The last known good one comes first. Rolled back ones need a person's request. */
function releasesBefore(bundle: StoredBundle, bundles: readonly StoredBundle[]): readonly StoredBundle[] {
  return keptBundles(ofStream(bundles, bundle.payload.name))
    .filter(
      (older) =>
        older.bundleId !== bundle.bundleId &&
        older.activatedAt !== undefined &&
        !isTwin(bundle, older) &&
        !isRolledBack(older),
    )
    .sort((a, b) => (b.provenAt ?? 0) - (a.provenAt ?? 0));
}

/** Returns components that run from an image that only `older` has, started after `bundle`. */
function componentsBack(
  bundle: StoredBundle,
  older: StoredBundle,
  soak: Soak,
  { containers, ids }: ContainerView,
): ReadonlySet<string> {
  const newerComponents = componentsById(bundle, ids);
  const components = componentsById(older, ids);
  const startedAt = new Map(soak.components.map((entry) => [entry.component, entry.startedAt]));
  const back = containers.flatMap((container) => {
    const id = imageIdOf(container, ids);
    if (container.state !== 'running' || id === undefined || newerComponents.has(id)) return [];
    const component = components.get(id) ?? '';
    const before = startedAt.get(component);
    return before !== undefined && container.startedAt > before ? [component] : [];
  });
  return new Set(back);
}

function isAnyLeft({ components }: Soak): boolean {
  return components.some((entry) => entry.counts && (entry.failed.length > 0 || !entry.runs.every(isAttested)));
}

/** The release's tags are in force until the earlier release is activated. */
export function rollbackReason(
  bundle: StoredBundle,
  bundles: readonly StoredBundle[],
): Extract<ReleaseReason, { readonly code: 'engine/rolled-back' }> | undefined {
  const { payload, rolledBackReason: recorded, isRolledBackByHand: isByHand } = bundle;
  if (!isRolledBack(bundle) || recorded === undefined) return undefined;
  const to = goesBackTo(bundle, bundles);
  const data = { bundle: labelOf(payload), recorded, isByHand, to: to && labelOf(to.payload) };
  return { code: 'engine/rolled-back', data: defined(data) };
}

/**
 * Returns the release to which the node goes back from a rolled back one. Undefined when its
 * activation is done, or when something else was activated since.
 */
export function goesBackTo({ payload, rolledBackAt = 0 }: StoredBundle, bundles: readonly StoredBundle[]) {
  return ofStream(bundles, payload.name).find(
    (other) => (other.activationRequestedAt ?? 0) > rolledBackAt && isRequested(other, bundles),
  );
}
