import { judgeOrder } from '../activation/gates.ts';
import { type PlannedPath, pathOf, placeIn, type StreamPaths } from '../activation/read-paths.ts';
import { chooseNext, type PathRelease } from '../activation/stream-path.ts';
import { isAutomatic } from '../activation/timing-gates.ts';
import type { Adoption } from '../adoption/unknown-bundles.ts';
import type { BundleId } from '../model/digest.ts';
import { type Lacking, lackingCount } from '../preload/supply.ts';
import { hasBegun } from '../release/recorded-phase.ts';
import { type TagGoal, tagGoalsOf } from '../release/tag-goals.ts';
import { allGoalsOf, type TagAssessment } from '../release/tags.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';
import type { BundleAssessment } from './assess-bundle.ts';

export interface OrderAssessment {
  readonly bundles: readonly BundleAssessment[];
  readonly next: ReadonlyMap<string, PathRelease>;
}

/**
 * Lets only one release of each stream continue: the one requested last, else the one whose tags
 * have begun to move, else the highest that nothing holds and that is ready, loading or about to be
 * adopted. A release that can't be loaded holds no other.
 */
export function assessOrder(
  entries: readonly BundleAssessment[],
  adoptions: readonly Adoption[],
  paths: StreamPaths,
  policy: Policy,
): OrderAssessment {
  const arriving = Map.groupBy(adoptions, ({ found }) => found.bundle.payload.name);
  const next = new Map(
    [...Map.groupBy(entries, ({ bundle }) => bundle.payload.name)].flatMap(([stream, ofStream]) => {
      const found = nextOf(ofStream, arriving.get(stream) ?? [], pathOf(paths, stream), policy);
      return found === undefined ? [] : [[stream, found] as const];
    }),
  );
  return { bundles: entries.map((entry) => inOrder(entry, next.get(entry.bundle.payload.name))), next };
}

function nextOf(
  entries: readonly BundleAssessment[],
  adoptions: readonly Adoption[],
  path: PlannedPath,
  policy: Policy,
): PathRelease | undefined {
  const coming = entries.filter(isComing);
  const [requested] = coming
    .map(({ bundle }) => bundle)
    .filter(isRequested)
    .sort((a, b) => (b.activationRequestedAt ?? 0) - (a.activationRequestedAt ?? 0));
  if (requested !== undefined) return placeIn(path, requested);
  const begun = coming.find(({ bundle, degraded }) => hasBegun(bundle) && degraded === undefined);
  if (begun !== undefined) return placeIn(path, begun.bundle);
  const ids = new Set<BundleId>([
    ...coming.map(({ bundle }) => bundle.bundleId),
    ...adoptions.flatMap(({ found }) => (isAutomatic(found.bundle, policy) ? [found.bundle.bundleId] : [])),
  ]);
  return chooseNext({ ...path, releases: path.releases.filter(({ id }) => ids.has(id)) });
}

function isComing({ activationDue, phase, degraded }: BundleAssessment): boolean {
  if (!activationDue || phase === 'held') return false;
  return phase !== 'preloading' || degraded === undefined;
}

function isRequested({ activationRequestedAt = 0, activatedAt = 0 }: StoredBundle): boolean {
  return activationRequestedAt > activatedAt;
}

function inOrder(entry: BundleAssessment, next: PathRelease | undefined): BundleAssessment {
  if (!entry.activationDue || isRequested(entry.bundle)) return entry;
  const held = judgeOrder(entry.bundle, next);
  if (held.length === 0) return entry;
  const { begun: _, ...rollOut } = entry.rollOut ?? {};
  return { ...entry, activationDue: false, rollOut, holds: [...entry.holds, ...held] };
}

export function isReadyToActivate({ activationDue, ...entry }: BundleAssessment): boolean {
  return activationDue && isComplete(entry) && entry.unsyncedImages.length === 0;
}

export function isComplete({ unpinnedImages, ...entry }: Lacking & Pick<BundleAssessment, 'unpinnedImages'>): boolean {
  return lackingCount(entry) + unpinnedImages.length === 0;
}

/** Returns the bundle whose activation runs, else the first ready one that no gate holds. */
export function activationTarget(
  { running: tasks }: Pick<Memory, 'running'>,
  { bundles }: Pick<OrderAssessment, 'bundles'>,
): BundleAssessment | undefined {
  const running = tasks.find((task) => task.kind === 'activate');
  if (running !== undefined)
    return bundles.find((entry) => entry.bundle.bundleId === running.bundleId && entry.withdrawn === undefined);
  return bundles.find((entry) => isReadyToActivate(entry) && entry.holds.length === 0);
}

export interface AssessedTags extends Pick<OrderAssessment, 'bundles'> {
  readonly tags: TagAssessment;
}

/** Returns the tags that are set now or next. The catalog and the task must use the same ones. */
export function tagsInWork(memory: Pick<Memory, 'running'>, assessment: AssessedTags): readonly TagGoal[] {
  const target = activationTarget(memory, assessment);
  if (target !== undefined) return tagGoalsOf(target.bundle);
  const running = memory.running.find((task) => task.kind === 'restore-tags');
  if (running === undefined) return assessment.tags.due;
  const entry = assessment.bundles.find(({ bundle }) => bundle.bundleId === running.bundleId);
  if (entry === undefined || entry.withdrawn !== undefined) return [];
  return allGoalsOf(entry.bundle, assessment.tags).filter(({ tag }) => running.tags.includes(tag));
}

export function trustedReleases({ bundles }: Pick<OrderAssessment, 'bundles'>): readonly StoredBundle[] {
  return bundles.filter(({ withdrawn }) => withdrawn === undefined).map(({ bundle }) => bundle);
}
