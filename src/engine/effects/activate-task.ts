import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { RenderedMirrors, RuntimeImage } from '../../domain/model/image.ts';
import { parseReference, repositoryOf } from '../../domain/model/reference.ts';
import { isStorageTrouble } from '../../domain/preload/space.ts';
import { type LocalImage, type TagGoal, tagGoalsOf } from '../../domain/release/tag-goals.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import type { PullChecker } from '../keepers/pull-checker.ts';
import { isRuntimeAway, probeMirror } from '../tasks/pulls.ts';
import type { StallWatch } from '../tasks/stall-watch.ts';
import type { MirrorGate } from './mirror-gate.ts';

const PARALLEL_TAGS = 4;

export interface ActivationDependencies {
  readonly runtime: Pick<RuntimePort, 'observe' | 'pull' | 'image' | 'addTag' | 'removeTag'>;
  readonly meter: Pick<TransferMeter, 'manifestRequests' | 'manifestsSent'>;
  readonly mirrorGate: Pick<MirrorGate, 'isProven' | 'prove'>;
  readonly pullChecker: Pick<PullChecker, 'answered'>;
  readonly stalls: StallWatch;
}

/**
 * @param local images of the node that keep their tag, and get the others where the runtime has a
 *   call for that
 * @returns the number of tags that name images of the release
 */
export async function activateBundle(
  bundle: StoredBundle,
  local: readonly LocalImage[],
  deps: ActivationDependencies,
  signal: AbortSignal,
): Promise<number> {
  const left = new Set(local.map(({ reference }) => reference));
  const goals = tagGoalsOf(bundle).filter(({ reference }) => !left.has(reference));
  await giveTags(goals, bundle, deps, signal);
  for (const { tag, others } of local) for (const other of others) await deps.runtime.addTag(other, tag, signal);
  return goals.length;
}

/**
 * Makes tags name the images of a release. A tag is added without a pull where the runtime can do
 * that. Otherwise it is pulled from our registry, and compared with the list of the runtime before.
 * A wrong tag is removed again and ends the activation. INVARIANT: no tag is pulled before the
 * runtime has proven that it uses the mirror of its repository. Another registry may have another
 * image under the same tag.
 * @returns the tags that did not name their images before
 * @throws AppError `engine/mirror-unused`, `engine/tag-mismatch`, `engine/stalled` (`retry`);
 *   errors of the pulls
 */
export async function giveTags(
  goals: readonly TagGoal[],
  bundle: StoredBundle,
  deps: ActivationDependencies,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { images, mirrors, path } = await observed(deps.runtime, signal);
  const open = goals.filter(({ tag, reference }) => !isSameImage(images.get(tag), images.get(reference)));
  try {
    const pulled = await addTags(open, deps.runtime, signal);
    if (mirrors.takeEffect !== 'at-once' && mirrors.takeEffect !== 'own-pulls') {
      for (const probe of probesFor(pulled)) await proveMirror(probe, mirrors, deps, signal);
    }
    const [first, ...others] = pulled;
    // The first one alone: where another source answers, no further tag is pulled from it.
    if (first !== undefined) await giveTag(first, images, bundle, deps, signal);
    await forEachLimited(others, PARALLEL_TAGS, signal, (goal, inner) => giveTag(goal, images, bundle, deps, inner));
  } catch (error) {
    throw storageError(error, path) ?? error;
  }
  return open.map(({ tag }) => tag);
}

async function addTags(
  goals: readonly TagGoal[],
  runtime: ActivationDependencies['runtime'],
  signal: AbortSignal,
): Promise<readonly TagGoal[]> {
  const left = new Set(goals);
  await forEachLimited(goals, PARALLEL_TAGS, signal, async (goal, inner) => {
    if (await runtime.addTag(goal.tag, goal.reference, inner)) left.delete(goal);
  });
  return [...left];
}

async function observed(runtime: ActivationDependencies['runtime'], signal: AbortSignal) {
  const observation = await runtime.observe(signal);
  if (observation.kind !== 'reachable') {
    throw new AppError({ code: 'runtime/unreachable', message: observation.reason, disposition: 'retry' });
  }
  const { images, mirrorsTakeEffect: takeEffect = 'at-once', renderedMirrors: repositories, filesystem } = observation;
  const named = images.flatMap((image) =>
    [...image.repoDigests, ...image.repoTags].map((name) => [name, image] as const),
  );
  return { images: new Map(named), mirrors: { repositories, takeEffect }, path: filesystem?.path };
}

/** With advice for a storage that can't be written. @param path the folder of the images */
function storageError(error: unknown, path: string | undefined): AppError | undefined {
  if (!(error instanceof AppError) || !isStorageTrouble(error)) return undefined;
  const where = path === undefined ? '' : ` (${path}, or where it stages blobs)`;
  const message =
    error.code === 'runtime/no-space'
      ? `the runtime's storage${where} is full or its quota used up. Make room on it; stickpin continues automatically`
      : `the runtime's storage${where} is read-only. Look for errors of its disk in dmesg and remount it writable; stickpin continues automatically`;
  return new AppError({ code: error.code, message, disposition: 'wait', cause: error });
}

/** Such a runtime may fail before it requests anything, which says nothing about its mirrors. */
function isStorageFailure(failure: unknown): boolean {
  return failure instanceof AppError && isStorageTrouble(failure);
}

/** A runtime identifies an image by its configuration, which two manifests may share. */
function isSameImage(tagged: RuntimeImage | undefined, own: RuntimeImage | undefined): boolean {
  return tagged !== undefined && tagged.imageId === own?.imageId;
}

/** One image of each repository: a runtime that has not reloaded may have some mirrors only. */
function probesFor(goals: readonly TagGoal[]): ReadonlyMap<string, Digest> {
  return new Map(goals.map(({ tag, digest }) => [parseReference(tag).repository, digest]));
}

/** Throws unless the runtime pulls from our registry. No layer is downloaded. */
async function proveMirror(
  [repository, digest]: readonly [string, Digest],
  { repositories }: RenderedMirrors,
  deps: ActivationDependencies,
  signal: AbortSignal,
): Promise<void> {
  if (repositories.includes(repository) && deps.mirrorGate.isProven(repository)) return;
  const isRequested = () => deps.meter.manifestRequests(repository, digest) !== asked;
  const asked = deps.meter.manifestRequests(repository, digest);
  const probing = {
    ...deps,
    runtime: { pull: (name: string, inner: AbortSignal) => pull(name, isRequested, deps, inner) },
  };
  const end = await probeMirror(repository, digest, probing, signal);
  signal.throwIfAborted();
  if (end.isRequested) return deps.mirrorGate.prove(repository);
  if (isRuntimeAway(end) || isStorageFailure(end.failure) || isStalled(end.failure)) throw end.failure;
  const why = end.failure === undefined ? '' : `: ${reasonOf(end.failure)}`;
  throw new AppError({
    code: 'engine/mirror-unused',
    message: `the runtime did not ask stickpin's registry for ${repository}; it does not use its mirror configuration (yet), and no tag is pulled before it has${why}`,
    disposition: 'retry',
  });
}

/** If our registry sent the manifest, this is a test of pulls as well. */
async function giveTag(
  goal: TagGoal,
  before: ReadonlyMap<string, RuntimeImage>,
  bundle: StoredBundle,
  deps: ActivationDependencies,
  signal: AbortSignal,
): Promise<void> {
  const { runtime, meter, pullChecker } = deps;
  const { repository, tag = '' } = parseReference(goal.tag);
  const sent = meter.manifestsSent(repository, tag);
  const hasSent = () => meter.manifestsSent(repository, tag) !== sent;
  await pull(goal.tag, hasSent, deps, signal);
  const isSent = hasSent();
  const tagged = await runtime.image(goal.tag, signal);
  const own = before.get(goal.reference);
  if (isSameImage(tagged, own) && !hasForeignManifest(tagged, own)) {
    if (isSent && repository === repositoryOf(goal.reference)) pullChecker.answered(goal.reference);
    return;
  }
  if (tagged !== undefined) await runtime.removeTag(goal.tag, signal);
  throw new AppError({
    code: 'engine/tag-mismatch',
    message: `${goal.tag} does not name ${goal.reference} after it was pulled for ${bundleTitle(bundle.payload)}; another source answers for this tag, see the runtime's registries configuration`,
    disposition: 'retry',
  });
}

/** While this runs no other activation starts, so it must end. */
async function pull(
  name: string,
  isRequested: () => boolean,
  { runtime, stalls }: ActivationDependencies,
  signal: AbortSignal,
): Promise<void> {
  const watched = { what: name, layers: [], isRequested, isPresent: true };
  await stalls.guard(watched, signal, (inner) => runtime.pull(name, inner));
}

function isStalled(failure: unknown): boolean {
  return failure instanceof AppError && failure.code === 'engine/stalled';
}

/** Another manifest with the same configuration is the same image, with one more digest. */
function hasForeignManifest(after: RuntimeImage | undefined, before: RuntimeImage | undefined): boolean {
  if (after === undefined || before === undefined) return false;
  const known = new Set(before.repoDigests.map(digestIn));
  return after.repoDigests.some((name) => !known.has(digestIn(name)));
}

function digestIn(name: string): string {
  return name.slice(name.indexOf('@') + 1);
}
