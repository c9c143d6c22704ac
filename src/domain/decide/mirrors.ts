import type { Assessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import type { Image } from '../model/bundle.ts';
import type { Phase } from '../model/phase.ts';
import { repositoryOf } from '../model/reference.ts';
import { isRetired } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import type { Memory } from '../state/memory.ts';
import { isPreloading } from './pull-plan.ts';

/**
 * Phases in which the images of a release are in use, may be again (the fallback), or may be soon:
 * one that is ready keeps the mirrors of its preload, so that its activation needs no reload of
 * CRI-O.
 */
const SERVED_PHASES: ReadonlySet<Phase> = new Set<Phase>(['ready', 'activated', 'active', 'proven', 'superseded']);

/**
 * All repositories that need our mirror, sorted: those of images that are loaded, of tags that are
 * set, and of the releases that are ready, activated, or fallbacks.
 *
 * @param rendered the mirrors of now. While a task runs they stay, since the runtime may come back
 *   to them for the next blob. Those of a preload stay after a start, until all media were read.
 */
export function mirrorsWanted(
  rendered: readonly string[],
  memory: Memory,
  { bundles, tags }: Pick<Assessment, 'bundles' | 'tags'>,
  { serve }: Pick<Policy, 'serve'>,
): readonly string[] {
  // What is not current is listed with a word before it, and is no repository.
  const current = rendered.filter((name) => !name.includes(' '));
  const expected = memory.isLooking ? new Set(bundles.filter(mayGoOn).flatMap(repositoriesIn)) : new Set();
  const wanted = new Set([
    ...current.filter((name) => memory.running.length > 0 || expected.has(name)),
    ...bundles.flatMap((entry) => repositoriesInWork(entry, memory)),
    ...tags.mirrored.map(({ tag }) => repositoryOf(tag)),
    ...bundles.filter(isInUse).flatMap((entry) => repositoriesIn(entry).filter((name) => isServed(name, serve))),
  ]);
  return [...wanted].sort();
}

/** Whether the registry answers for this repository while nothing of it is loaded or activated. */
export function isServed(repository: string, { activated, except }: Policy['serve']): boolean {
  return activated !== 'off' && !except.includes(repository);
}

/**
 * Whether it is an activated release, a fallback, or one that is or was ready, whose signature
 * still counts.
 */
function isInUse({ bundle, phase, withdrawn }: BundleAssessment): boolean {
  if (withdrawn !== undefined || phase === 'retired') return false;
  return SERVED_PHASES.has(phase) || bundle.readyAt !== undefined;
}

/**
 * Whether it is a preload that continues when its medium is read. After a restart of the daemon
 * that takes a moment: mirrors that went and came back would cost CRI-O two reloads.
 */
function mayGoOn({ bundle, withdrawn }: BundleAssessment): boolean {
  return (
    withdrawn === undefined && bundle.readyAt === undefined && bundle.cancelled === undefined && !isRetired(bundle)
  );
}

function repositoriesIn({ bundle }: BundleAssessment): readonly string[] {
  return repositoriesOf(bundle.contents.images);
}

/**
 * All repositories of a bundle while any of its images is to be pulled or its tags are to be set.
 * The set stays the same until the release is activated, and then while it is served, so that CRI-O
 * reloads once.
 */
export function repositoriesInWork(
  entry: BundleAssessment,
  { running, failures }: Pick<Memory, 'running' | 'failures'>,
): readonly string[] {
  const { bundle } = entry;
  // What was given up with these media is not pulled, so it needs no mirror.
  const given = new Set(
    failures.flatMap(({ task, retryAt }) => (task.kind === 'pull' && retryAt === undefined ? [task.reference] : [])),
  );
  if (entry.pullableImages.some(({ reference }) => !given.has(reference)) && isPreloading(entry)) {
    return repositoriesOf(entry.mirroredImages);
  }
  const isActivating = running.some((task) => task.kind === 'activate' && task.bundleId === bundle.bundleId);
  // Pins that the runtime does not report yet are no reason to take mirrors away and write them
  // again.
  const isDue = entry.activationDue && entry.absentImages.length === 0;
  return isActivating || isDue ? repositoriesOf(bundle.contents.images) : [];
}

/** Of images and of their tags, which may have repositories of their own. */
function repositoriesOf(images: readonly Image[]): readonly string[] {
  return images.flatMap(({ reference, tags }) => [reference, ...tags].map(repositoryOf));
}
