import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { RenderedMirrors, RuntimeImage } from '../../domain/model/image.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { parseReference, repositoryOf } from '../../domain/model/reference.ts';
import { isAnyDiskTrouble, isStorageTrouble } from '../../domain/preload/space.ts';
import { automaticCause } from '../../domain/release/lifecycle.ts';
import { hasBegun } from '../../domain/release/recorded-phase.ts';
import { type LocalImage, type TagGoal, tagGoalsOf } from '../../domain/release/tag-goals.ts';
import { allGoalsOf, tagsGivenLately, tagsOftenGone } from '../../domain/release/tags.ts';
import { contestEvents, givenAfterProofMessage, restoredMessage } from '../../domain/report/events/release-events.ts';
import type { RunningTask, TagGiven } from '../../domain/state/memory.ts';
import { latestStamp, type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { forEachLimited } from '../../platform/async/concurrency.ts';
import { formatCount } from '../../platform/sizes.ts';
import type { RuntimePort } from '../../ports/runtime.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import type { PullChecker } from '../keepers/pull-checker.ts';
import { FailureLog } from '../reporting/event-recorder.ts';
import type { MirrorGate } from '../tasks/mirror-gate.ts';
import { isRuntimeAway, probeMirror } from '../tasks/mirror-gate.ts';
import type { StallWatch } from '../tasks/stall-watch.ts';
import { isSettlingReported, type RetryPolicy, retryOf } from '../tasks/tasks.ts';
import type { EffectContext } from './effect-context.ts';

type TagTask = Exclude<RunningTask, { readonly kind: 'pull' }>;

/** An equal failure is reported the first time, then each so-many-th. */
const REPORTED_EVERY = 5;
/** While a disk can't be written: it is retried every 10 s. */
const SPACE_REPORTED_EVERY = 30;
/** The newest events of a bundle, among which its request is searched. */
const SEARCHED_EVENTS = 1_000;

export class TagTasks {
  given: readonly TagGiven[];
  private isUnsaved = false;
  private readonly failures: FailureLog;
  private readonly reported = new Set<string>();
  private readonly giving: ActivationDependencies;

  constructor(private readonly context: EffectContext) {
    const { ports, mirrorGate, pullChecker, stalls } = context;
    this.giving = { runtime: ports.runtime, meter: ports.meter, mirrorGate, pullChecker, stalls };
    this.given = ports.store.tagsGiven();
    const message = (reason: string) => `How often tags were given again could not be kept: ${reason}`;
    this.failures = new FailureLog(ports.log, message);
  }

  /** A failure is recorded. @throws only what aborted `signal` */
  async run(task: TagTask, bundle: StoredBundle, assessment: Assessment, signal: AbortSignal): Promise<void> {
    try {
      if (task.kind === 'activate') await this.activate(task, bundle, assessment, signal);
      else await this.restore(task, bundle, assessment, signal);
    } catch (error) {
      signal.throwIfAborted();
      // Interrupted, not failed: the task starts again when the runtime runs.
      if (error instanceof AppError && error.code === 'runtime/stopping') return;
      this.recordFailure(task, bundle, error);
    }
  }

  /** Reports each newly contested tag once. */
  follow(assessment: Assessment, running: readonly RunningTask[]): void {
    const { reported } = this;
    const { recorder, clock } = this.context.ports;
    const { settled, contested } = assessment.tags;
    for (const event of contestEvents(assessment, reported)) recorder.record(event);
    for (const { tag } of contested) reported.add(tag);
    for (const tag of settled) reported.delete(tag);
    this.keep(tagsGivenLately(this.given, settled, clock.now()));
    this.forgetGivenUp(assessment, running);
  }

  /**
   * Something other than time holds an activation that had begun: the present release gets its tags
   * back, and the next try waits for its window.
   */
  private forgetGivenUp({ bundles }: Assessment, running: readonly RunningTask[]): void {
    const { store, log } = this.context.ports;
    if (running.some(({ kind }) => kind === 'activate')) return;
    for (const { bundle, activationDue } of bundles) {
      if (!hasBegun(bundle) || activationDue) continue;
      try {
        store.change(bundle.bundleId, { activationBegunAt: undefined });
      } catch (error) {
        log.debug({ err: error }, 'That an activation was given up is recorded in a later round');
      }
    }
  }

  /**
   * INVARIANT: the beginning is on the disk before the first tag moves. Otherwise a restart between
   * two tags would leave them so when a window has closed. INVARIANT: the tags are on the
   * disk, and the floor is raised, before the activation is recorded. The last changes of the
   * database may be lost with its log; the mirror has the floor.
   */
  private async activate(
    task: TagTask,
    bundle: StoredBundle,
    { tags: known }: Assessment,
    signal: AbortSignal,
  ): Promise<void> {
    const { ports, failures, floorKeeper, storageKeeper } = this.context;
    const { store, recorder, clock, node } = ports;
    const before = latestStamp(store.load().bundles);
    if (!hasBegun(bundle)) {
      store.change(bundle.bundleId, { activationBegunAt: stampAfter(store.load().bundles, clock.now()) });
    }
    await store.settled(signal);
    const local = known.local.get(bundle.bundleId) ?? [];
    const count = await activateBundle(bundle, local, this.giving, signal);
    await storageKeeper.syncNow(signal);
    if (bundle.resetAt === undefined) await floorKeeper.raise(bundle.payload.name, bundle.payload.sequence);
    const stay = local.length === 0 ? '' : `; ${stayText(local)}`;
    const message = `${bundleTitle(bundle.payload)} is activated: ${count === 1 ? '1 tag names its image' : `${count} tags name its images`} now${stay}`;
    const about = { bundleId: bundle.bundleId, message, by: this.causeOf(bundle) };
    const event = { kind: 'bundleActivated', level: 'info', ...about } as const;
    const at = activationStamp(bundle, store.load().bundles, before, clock.now());
    store.change(bundle.bundleId, { activatedAt: at, activatedUptime: node.boot() }, { ...recorder.row(event), at });
    failures.succeeded(task);
    const tags = new Set(allGoalsOf(bundle, known).map(({ tag }) => tag));
    this.keep(this.given.filter(({ tag }) => !tags.has(tag)));
    recorder.log(event);
  }

  /** Who requested the activation, or what allowed it. */
  private causeOf(bundle: StoredBundle): string {
    const { store, policy } = this.context.ports;
    const { bundleId, activationRequestedAt } = bundle;
    if (activationRequestedAt === undefined) return automaticCause(bundle, policy);
    const request = store.events(bundleId, SEARCHED_EVENTS).findLast(({ at }) => at === activationRequestedAt);
    return request?.by ?? 'unknown user: activate';
  }

  private async restore(
    task: Extract<TagTask, { readonly kind: 'restore-tags' }>,
    bundle: StoredBundle,
    { tags }: Assessment,
    signal: AbortSignal,
  ): Promise<void> {
    const { ports, failures } = this.context;
    const { recorder, clock } = ports;
    const wanted = new Set(task.tags);
    const goals = allGoalsOf(bundle, tags).filter(({ tag }) => wanted.has(tag));
    const restored = new Set(await giveTags(goals, bundle, this.giving, signal));
    failures.succeeded(task);
    if (restored.size === 0) return;
    const at = clock.now();
    const wasOften = tagsOftenGone(this.given, at);
    const all = tags.stray.filter(({ tag }) => restored.has(tag));
    const wereGone = new Set(all.flatMap(({ tag, names }) => (names === undefined ? [tag] : [])));
    const times = [...restored].map((tag) => ({ tag, at, ...(wereGone.has(tag) && { wasGone: true as const }) }));
    this.keep(tagsGivenLately([...this.given, ...times], [], at));
    // One that is removed again and again is reported three times.
    const lost = all.filter(({ tag }) => !(wereGone.has(tag) && wasOften.has(tag)));
    const given = lost.filter(({ provenAt }) => provenAt !== undefined);
    const back = lost.filter(({ provenAt }) => provenAt === undefined);
    const about = { bundleId: bundle.bundleId };
    if (given.length > 0) {
      const message = givenAfterProofMessage(given, bundle);
      recorder.record({ kind: 'tagsAfterProof', level: 'info', ...about, message });
    }
    if (back.length === 0) return;
    const isOften = back.some(({ tag }) => tagsOftenGone(this.given, at).has(tag));
    recorder.record({ kind: 'tagsRestored', level: 'warn', ...about, message: restoredMessage(back, bundle, isOften) });
  }

  /** Writes the list as soon as the disk can be written. */
  private keep(next: readonly TagGiven[]): void {
    const { store } = this.context.ports;
    const taken = (given: readonly TagGiven[]) => given.filter(({ wasGone }) => !wasGone);
    this.isUnsaved ||= taken(next).length !== taken(this.given).length;
    this.given = next;
    if (!this.isUnsaved) return;
    try {
      store.setTagsGiven(taken(next));
      this.isUnsaved = false;
      this.failures.succeeded();
    } catch (error) {
      this.failures.failed(error);
    }
  }

  private recordFailure(task: TagTask, bundle: StoredBundle, error: unknown): void {
    const { failures, ports } = this.context;
    const isSettling = error instanceof AppError && error.code === 'engine/mirror-unused';
    const reason = failureOf(task, bundle, error);
    const retry = isSettling ? 'settling' : retryOf(reason);
    const { attempts } = failures.note(task, reason, retry, ports.clock.now());
    if (!isReported(retry, attempts)) return;
    const kind = task.kind === 'activate' ? 'activationFailed' : 'tagsNotRestored';
    ports.recorder.record({ kind, level: 'warn', bundleId: bundle.bundleId, message: reason.message });
  }
}

/** A request that was accepted while the tags moved counts as later than the activation. */
function activationStamp(
  { bundleId, payload }: StoredBundle,
  bundles: readonly StoredBundle[],
  before: number,
  now: number,
): number {
  const later = bundles
    .filter((other) => other.payload.name === payload.name)
    .map((other) => (other.bundleId === bundleId ? other.rolledBackAt : other.activationRequestedAt) ?? 0)
    .filter((at) => at > before);
  return later.length === 0 ? stampAfter(bundles, now) : Math.min(...later) - 1;
}

function stayText([first, ...more]: readonly LocalImage[]): string {
  const others = more.length === 0 ? '' : ` and ${more.length} more`;
  return `${first?.tag}${others} stays with the image that this node had under it`;
}

function isReported(retry: RetryPolicy, attempts: number): boolean {
  if (retry === 'settling') return isSettlingReported(attempts);
  return attempts <= 1 || attempts % (retry === 'space' ? SPACE_REPORTED_EVERY : REPORTED_EVERY) === 0;
}

function failureOf(task: TagTask, { payload }: StoredBundle, error: unknown): Fault {
  const title = bundleTitle(payload);
  if (task.kind === 'activate') {
    const code = error instanceof AppError ? error.code : 'engine/activation';
    return { code, message: `${title} could not be activated: ${reasonOf(error)}` };
  }
  const what = `${formatCount(task.tags.length, 'tag')} of ${title}, first ${task.tags[0]},`;
  const code = error instanceof AppError && isAnyDiskTrouble(error) ? error.code : 'engine/tags';
  return { code, message: `${what} could not be given to the right image again: ${reasonOf(error)}` };
}

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
  const remaining = new Set(local.map(({ reference }) => reference));
  const goals = tagGoalsOf(bundle).filter(({ reference }) => !remaining.has(reference));
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
async function giveTags(
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
  const remaining = new Set(goals);
  await forEachLimited(goals, PARALLEL_TAGS, signal, async (goal, inner) => {
    if (await runtime.addTag(goal.tag, goal.reference, inner)) remaining.delete(goal);
  });
  return [...remaining];
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

/** Adds advice for a storage that can't be written. @param path the folder of the images */
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
function isSameImage(tagged: RuntimeImage | undefined, image: RuntimeImage | undefined): boolean {
  return tagged !== undefined && tagged.imageId === image?.imageId;
}

/**
 * Probes one image of each repository: a runtime that has not reloaded may have some mirrors only.
 */
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
  const isRequested = () => deps.meter.manifestRequests(repository, digest) !== requested;
  const requested = deps.meter.manifestRequests(repository, digest);
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
  const expected = before.get(goal.reference);
  if (isSameImage(tagged, expected) && !hasForeignManifest(tagged, expected)) {
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
