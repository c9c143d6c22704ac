import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleTitle } from '../../domain/model/bundle.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { isAnyDiskTrouble } from '../../domain/preload/space.ts';
import { automaticCause } from '../../domain/release/lifecycle.ts';
import { hasBegun } from '../../domain/release/recorded-phase.ts';
import type { LocalImage } from '../../domain/release/tag-goals.ts';
import { allGoalsOf, tagsGivenLately, tagsOftenGone } from '../../domain/release/tags.ts';
import { contestEvents, givenAfterProofMessage, restoredMessage } from '../../domain/report/events/release-events.ts';
import type { RunningTask, TagGiven } from '../../domain/state/memory.ts';
import { latestStamp, type StoredBundle, stampAfter } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { formatCount } from '../../platform/sizes.ts';
import { isSettlingReported, type RetryPolicy, retryOf } from '../tasks/tasks.ts';
import { type ActivationDependencies, activateBundle, giveTags } from './activate-task.ts';
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
  private isFailureLogged = false;
  private readonly reported = new Set<string>();
  private readonly giving: ActivationDependencies;

  constructor(private readonly context: EffectContext) {
    const { ports, mirrorGate, pullChecker, stalls } = context;
    this.giving = { runtime: ports.runtime, meter: ports.meter, mirrorGate, pullChecker, stalls };
    this.given = ports.store.tagsGiven();
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
    const { store, log } = this.context.ports;
    const taken = (given: readonly TagGiven[]) => given.filter(({ wasGone }) => !wasGone);
    this.isUnsaved ||= taken(next).length !== taken(this.given).length;
    this.given = next;
    if (!this.isUnsaved) return;
    try {
      store.setTagsGiven(taken(next));
      this.isUnsaved = false;
      this.isFailureLogged = false;
    } catch (error) {
      if (!this.isFailureLogged) {
        log.warn({ err: error }, `How often tags were given again could not be kept: ${reasonOf(error)}`);
      }
      this.isFailureLogged = true;
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
