import { onceFor } from '../../platform/once-for.ts';
import { bundleName, type Image } from '../model/bundle.ts';
import type { Phase } from '../model/condition.ts';
import type { BundleId } from '../model/digest.ts';
import { ofStream, type Stored, type StoredBundle } from '../state/state.ts';

export type ReachedPhase = Extract<Phase, 'ready' | 'activated' | 'active' | 'proven' | 'superseded' | 'retired'>;

/** The release is unpinned and was not requested since. */
export function isRetired({ retiredAt, activationRequestedAt }: StoredBundle): boolean {
  return retiredAt !== undefined && retiredAt > (activationRequestedAt ?? 0);
}

/** Returns bundles whose images are pinned. */
export function keptBundles(bundles: readonly StoredBundle[]): readonly StoredBundle[] {
  return bundles.filter((bundle) => !isRetired(bundle));
}

const byName = onceFor((bundles: readonly StoredBundle[]) =>
  Map.groupBy(bundles, ({ payload }) => bundleName(payload)),
);

/** Returns the bundles of `name@version` that are not retired, else the last one. */
export function bundlesCalled(bundles: readonly StoredBundle[], name: string): readonly StoredBundle[] {
  const named = byName(bundles).get(name) ?? [];
  const kept = keptBundles(named);
  return kept.length > 0 ? kept : named.slice(-1);
}

/** Returns `name@version` if that is unique, else the digest. */
export function commandName({ bundleId, payload }: StoredBundle, bundles: readonly StoredBundle[]): string {
  const name = bundleName(payload);
  return bundlesCalled(bundles, name).every((other) => other.bundleId === bundleId) ? name : bundleId;
}

const newestOf = onceFor((bundles: readonly StoredBundle[]) => ({
  activated: newest(keptBundles(bundles), (bundle) => bundle.activatedAt),
  proven: newest(keptBundles(bundles), (bundle) => bundle.provenAt),
}));

/** Returns the kept release of a stream that was activated last. Its tags are in force. */
export function currentRelease(bundles: readonly StoredBundle[], stream: string): StoredBundle | undefined {
  return newestOf(ofStream(bundles, stream)).activated;
}

export function lastProven(bundles: readonly StoredBundle[], stream: string): StoredBundle | undefined {
  return newestOf(ofStream(bundles, stream)).proven;
}

/** Whether its present activation, not an earlier one, has been proven. */
export function isProven({ provenAt, activatedAt }: StoredBundle): boolean {
  return provenAt !== undefined && provenAt >= (activatedAt ?? 0);
}

/** Whether it was rolled back after its present activation. */
export function isRolledBack({ rolledBackAt, activatedAt }: StoredBundle): boolean {
  return rolledBackAt !== undefined && rolledBackAt >= (activatedAt ?? 0);
}

/** The tags were moved. Windows, rollouts, the schedule don't apply: half-moved tags are worse. */
export function hasBegun({ activationBegunAt, activatedAt }: StoredBundle): boolean {
  return activationBegunAt !== undefined && activationBegunAt > (activatedAt ?? 0);
}

/** Whether it was requested after its last activation. */
export function hasOpenRequest({ activationRequestedAt = 0, activatedAt = 0 }: StoredBundle): boolean {
  return activationRequestedAt > activatedAt;
}

/** Whether its requested activation is not done, and nothing of its stream was activated since. */
export function isRequested(bundle: StoredBundle, bundles: readonly StoredBundle[]): boolean {
  const { bundleId, payload, activationRequestedAt: at = 0 } = bundle;
  if (!hasOpenRequest(bundle) || isRetired(bundle)) return false;
  return bundles.every(
    (other) => other.bundleId === bundleId || other.payload.name !== payload.name || (other.activatedAt ?? 0) <= at,
  );
}

export function wasActive({ activeAt, activatedAt }: StoredBundle): boolean {
  return activeAt !== undefined && activatedAt !== undefined && activeAt >= activatedAt;
}

/** Releases of attached files alone have no images to share. */
export function isTwin(one: StoredBundle, other: StoredBundle): boolean {
  if (one.bundleId === other.bundleId || one.contents.images.length === 0) return false;
  return isSameSet(one.contents.images, other.contents.images);
}

export function hasSameArtifacts({ contents: one }: StoredBundle, { contents: other }: StoredBundle): boolean {
  return isSameSet(one.artifacts ?? [], other.artifacts ?? []);
}

type Named = Pick<Image, 'reference'>;

function isSameSet(ones: readonly Named[], others: readonly Named[]): boolean {
  const references = new Set(ones.map(({ reference }) => reference));
  return others.length === ones.length && others.every(({ reference }) => references.has(reference));
}

/** @returns undefined before the release was ready */
export function reachedPhase(bundle: StoredBundle, bundles: readonly StoredBundle[]): ReachedPhase | undefined {
  if (isRetired(bundle)) return 'retired';
  if (bundle.activatedAt === undefined) return bundle.readyAt === undefined ? undefined : 'ready';
  const { name } = bundle.payload;
  if (currentRelease(bundles, name)?.bundleId === bundle.bundleId) {
    if (isProven(bundle)) return 'proven';
    return wasActive(bundle) && !isRolledBack(bundle) && runsNow(bundle) ? 'active' : 'activated';
  }
  if (bundle.provenAt === undefined) return 'activated';
  return lastProven(bundles, name)?.bundleId === bundle.bundleId ? 'proven' : 'superseded';
}

export function currentIds(bundles: readonly StoredBundle[]): ReadonlySet<BundleId> {
  const streams = new Set(bundles.map((bundle) => bundle.payload.name));
  return new Set([...streams].flatMap((stream) => currentRelease(bundles, stream)?.bundleId ?? []));
}

function runsNow({ soak }: StoredBundle): boolean {
  return soak?.components.some((component) => component.counts && component.runs.length > 0) ?? false;
}

function newest(
  bundles: readonly StoredBundle[],
  timeOf: (bundle: StoredBundle) => number | undefined,
): StoredBundle | undefined {
  let found: StoredBundle | undefined;
  for (const bundle of bundles) {
    if (timeOf(bundle) === undefined) continue;
    if (found === undefined || (timeOf(bundle) ?? 0) >= (timeOf(found) ?? 0)) found = bundle;
  }
  return found;
}

export function unprovenReleases({ bundles }: Stored): readonly StoredBundle[] {
  const current = currentIds(bundles);
  return bundles.filter((bundle) => current.has(bundle.bundleId) && !isProven(bundle) && !isRolledBack(bundle));
}
