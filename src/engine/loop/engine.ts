import { type Assessment, assess } from '../../domain/assess/assess.ts';
import { tagsInWork } from '../../domain/decide/activation.ts';
import type { Catalog } from '../../domain/decide/catalog.ts';
import { catalogOf, withheldImages } from '../../domain/decide/catalog.ts';
import { decide } from '../../domain/decide/decide.ts';
import { keepPlan } from '../../domain/decide/keep-plan.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import type { Reason } from '../../domain/model/medium.ts';
import { needsContainers } from '../../domain/release/lifecycle.ts';
import { eventsBetween } from '../../domain/report/events.ts';
import type { StatusReport } from '../../domain/report/report.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Effect } from '../../domain/state/effect.ts';
import { lastCarriersIn } from '../../domain/state/last-carrier.ts';
import type { Memory, RunningTask } from '../../domain/state/memory.ts';
import type { Observed, Policy } from '../../domain/state/state.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { LayerStore } from '../../ports/blobs.ts';
import type { MediaPort } from '../../ports/media.ts';
import type { NodePort, ServiceNotifier } from '../../ports/node.ts';
import type { ReleaseFiles } from '../../ports/release-files.ts';
import type { EventRow, FloorStore, PinLedgerStore } from '../../ports/state.ts';
import type { TrustPort } from '../../ports/trust.ts';
import { createLayerKeeper } from '../blobs/layer-keeper.ts';
import { cancelPreloads } from '../commands/cancel-preloads.ts';
import { type Commands, createCommands, findBundle, type UnpinOptions } from '../commands/commands.ts';
import { createRunningReleases, NOTHING_SEEN } from '../commands/running-releases.ts';
import { giveUpUnclaimed } from '../commands/unpin-unclaimed.ts';
import { createVerdicts, type Verdicts } from '../commands/verdicts.ts';
import { createEffects, type EffectDependencies } from '../effects/effects.ts';
import { execute } from '../effects/executor.ts';
import { notePinsHeld, unenforcedPins } from '../effects/pin-effects.ts';
import { resumePreloads } from '../effects/record-effects.ts';
import { followTags } from '../effects/tag-effects.ts';
import { type Conditions, createConditionKeeper } from '../keepers/condition-keeper.ts';
import { createFloorKeeper } from '../keepers/floor-keeper.ts';
import { createPinKeeper } from '../keepers/pin-keeper.ts';
import { createReleaseKeeper } from '../keepers/release-keeper.ts';
import { createEventRecorder } from '../reporting/event-recorder.ts';
import { createRefusals } from '../reporting/refusals.ts';
import { createStatusPublisher } from '../reporting/status-publisher.ts';
import { createFailureLedger } from '../tasks/failures.ts';
import { createMediaJobs } from '../tasks/media-jobs.ts';
import { createRunningQueue, type Next } from '../tasks/pull-queue.ts';
import { createTasks } from '../tasks/tasks.ts';
import { createWake } from '../tasks/wake.ts';
import { lookAtContainers, observe } from './observe.ts';
import { createPace, type Pause, underWayMs } from './pace.ts';

/** What the engine is wired to. */
export interface EngineDependencies
  extends Omit<EffectDependencies, 'tasks' | 'mediaJobs' | 'failures' | 'recorder' | 'alive' | 'floorKeeper'> {
  readonly media: MediaPort;
  /** Where layers are kept. */
  readonly layers: LayerStore;
  readonly pinLedger: PinLedgerStore;
  readonly floors: FloorStore;
  /** What was found wrong with our own state at the start. */
  readonly stateProblems?: readonly Reason[];
  readonly trust: TrustPort;
  readonly node: NodePort;
  readonly releaseFiles: ReleaseFiles;
  readonly notifier: ServiceNotifier;
  readonly policy: Policy;
  /** 0 to 1, as Math.random: spreads tries. */
  readonly random: () => number;
  /** Tells the registry what it may serve. */
  readonly setCatalog: (catalog: Catalog, withheld: ReadonlySet<Digest>) => void;
  /** Called with every new STATUS line. */
  readonly onStatus: (report: StatusReport) => void;
  /** Called when an effect was done; a long one has been started then. */
  readonly afterEffect?: ((effect: Effect) => void) | undefined;
}

/** The daemon's heart: observes, decides, acts and records until it is told to stop. */
export interface Engine extends Omit<Commands, 'unpin'> {
  /** Runs until `signal` aborts; then cancels what runs and returns. */
  run(signal: AbortSignal): Promise<void>;
  /** Asks for a round now. */
  kick(): void;
  /** Monotonic milliseconds since the last effect began, an image was removed or the last round ended, for the watchdog. */
  idleMs(): number;
  report(): StatusReport | undefined;
  /** As {@link Commands.unpin}, after a look at the containers, unless it is forced: a round may have seen them ten minutes ago. */
  unpin(bundle: string, options: UnpinOptions, signal: AbortSignal): Promise<void>;
  /**
   * Gives up all pins that belong to no known release. Returns a sentence about what was done.
   *
   * @throws AppError `engine/no-unclaimed` (`reject`) when there are none; `engine/running` without `force`; `store/write` (`retry`)
   */
  unpinUnclaimed(force: boolean): Promise<string>;
  history(bundle: string | undefined, limit: number): readonly EventRow[];
  /** As `Durability.settled`: what a command has recorded outlives a power cut from then on. */
  settled(): Promise<void>;
  /**
   * Breaks off every preload; it stays so, over restarts, until a medium with its bundle is plugged in or {@link Engine.resume}.
   *
   * @throws AppError `engine/nothing-to-cancel` (`reject`)
   */
  cancel(): void;
  /** Takes back what was cancelled, and asks for a round now. */
  resume(): void;
  readonly verdicts: Verdicts;
}

/** A round at least this often, whether anything was signalled or not. */
const ROUND_MS = 30_000;
/** A round at least this often while the runtime does not answer, or the state can't be written: nothing signals that this is over. */
const AWAY_MS = 5_000;
/** Pause after a round that threw. */
const BROKEN_PAUSE_MS = 5_000;

/** An engine that has not seen anything yet. */
export function createEngine(deps: EngineDependencies): Engine {
  const { clock, store, media, policy } = deps;
  const wake = createWake(clock);
  const failures = createFailureLedger(deps.random);
  const recorder = createEventRecorder(deps);
  let lastSignAt = clock.monotonic();
  const alive = () => {
    lastSignAt = clock.monotonic();
  };
  const runningQueue = createRunningQueue();
  /** Pulled since the last round looked at the runtime, so that they are not among the images that it saw. */
  const landed = new Set<string>();
  const kick = () => {
    runningQueue.stop();
    wake.kick();
  };
  const tasks = createTasks((task, end) => {
    if (task.kind === 'pull' && end === 'pulled') {
      landed.add(task.reference);
      goOn(runningQueue.after(task.reference));
    } else kick();
  });
  const keeper = createLayerKeeper(deps, kick);
  const pinKeeper = createPinKeeper(deps);
  const floorKeeper = createFloorKeeper(deps);
  const releaseKeeper = createReleaseKeeper({ ...deps, recorder, alive });
  const conditionKeeper = createConditionKeeper(deps);
  const mediaJobs = createMediaJobs(clock, kick);
  const refusals = createRefusals();
  const effects = createEffects({ ...deps, tasks, mediaJobs, failures, recorder, alive, floorKeeper });
  let snapshot: Snapshot | undefined;
  let conditions: Conditions = new Map();
  const status = createStatusPublisher({
    ...deps,
    underWay: () => ({
      running: tasks.running(),
      copyingBytes: keeper.copyingBytes(),
      keeping: new Map(effects.keeping),
    }),
    landed: () => [...landed],
    seen: () => snapshot && { ...snapshot, conditions },
  });
  const commands = createCommands({ clock, store, policy: policy.lifecycle, assessment: () => snapshot?.assessment });
  const running = createRunningReleases({ store, lookNow: (signal) => lookAtContainers(deps, signal) });
  const pace = createPace();
  let obstacle: Reason | undefined;
  let lastRound = { at: clock.monotonic(), lookMs: 0 };
  let lastLookAt = Number.NEGATIVE_INFINITY;
  let stopping = new AbortController().signal;
  let offered: { from: readonly unknown[]; catalog: Catalog } | undefined;
  let presentLayers: ReadonlySet<Digest> = new Set();
  let areMediaKnown = false;

  /** Starts what follows pulls that worked, without a round. */
  function goOn({ starts, needsRound }: Next): void {
    if (needsRound) kick();
    if (starts.length === 0 || snapshot === undefined) return;
    const effects = starts.map((task): Effect => ({ kind: 'start', task }));
    void act(effects, snapshot.assessment, stopping).catch(() => undefined);
    wake.kickAt(lastRound.at + underWayMs(lastRound.lookMs));
  }

  async function round(signal: AbortSignal): Promise<Pause> {
    runningQueue.begin();
    const at = clock.monotonic();
    lastRound = { at, lookMs: 0 };
    const diskTrouble = store.trouble();
    const landedBefore = [...landed];
    const known = remembered(diskTrouble);
    const observed = await observe(
      { ...deps, mediaJobs },
      (runtime) =>
        needsContainers(store.load(), runtime, policy, {
          isShort: (snapshot?.assessment.short.length ?? 0) > 0,
          sinceLookMs: clock.monotonic() - lastLookAt,
        }),
      signal,
    );
    if (observed.runtime.kind === 'reachable' && observed.containers !== undefined) {
      lastLookAt = clock.monotonic();
      running.saw({ images: observed.runtime.images, containers: observed.containers });
    }
    const before = snapshot;
    // After the look: what is being kept then is at least as new as what was seen to be busy.
    const now = { keeping: new Map(effects.keeping), copyingBytes: keeper.copyingBytes() };
    snapshot = conclude(observed, { ...known, ...now }, before);
    for (const reference of landedBefore) landed.delete(reference);
    const { memory, assessment } = snapshot;
    conditions = conditionKeeper.follow(observed, memory, assessment);
    deps.setCatalog(catalog(snapshot), withheldImages(memory, assessment));
    for (const event of [...eventsBetween(before, snapshot), ...refusals.eventsOf(snapshot)]) recorder.tell(event);
    const decision = decide(observed, memory, assessment, policy);
    const plan = keepPlan(observed, assessment, policy);
    lastRound = { at, lookMs: clock.monotonic() - at };
    // What follows removes files.
    alive();
    await store.settled();
    alive();
    const isStarting = decision.pullsFollow === true || decision.effects.some(({ kind }) => kind === 'start');
    const isIdle = tasks.running().length === 0 && !isStarting;
    if (plan !== undefined) keeper.follow(plan, isIdle);
    await pinKeeper.follow(assessment.pins, memory.pinLedger);
    await floorKeeper.follow(memory.pinLedger === undefined && assessment.pins.unclaimed.length > 0);
    await releaseKeeper.follow(assessment, signal);
    status.publish();
    obstacle = await act(decision.effects, assessment, signal);
    goOn(runningQueue.decided(obstacle === undefined ? decision.pullQueue : undefined));
    const latest = observed.runtime.kind !== 'reachable' || diskTrouble !== undefined ? AWAY_MS : ROUND_MS;
    const wasRunning = memory.running.length > 0;
    return pace(decision, { failed: obstacle !== undefined, wasRunning, latestMs: latest, now: clock.now() });
  }

  /**
   * What is remembered before the node is looked at. A task that ends during the look still counts as running then: the look may have come too early to
   * see what it did.
   */
  function remembered(
    diskTrouble: Reason | undefined,
  ): Omit<Memory, 'failures' | 'isLooking' | 'keeping' | 'copyingBytes'> {
    return {
      running: tasks.running(),
      pinsRequested: effects.pinRequests.last,
      pinLedger: pinKeeper.ledger(),
      floors: floorKeeper.floors(),
      stateProblems: deps.stateProblems ?? [],
      unenforcedPins: unenforcedPins(effects.pinRequests),
      tagsGiven: effects.tags.given,
      obstacle: diskTrouble ?? obstacle ?? mediaJobs.obstacle(),
      exhaustedBundles: exhaustedIn(snapshot),
      lastCarriers: lastCarriersIn(snapshot?.observed.media ?? [], snapshot?.memory.lastCarriers ?? new Map()),
    };
  }

  /** The catalog changes with the bundles, their phases and the tags in work only, and a large one costs more than all else in a round. */
  function catalog({ memory, assessment }: Snapshot): Catalog {
    const tags = tagsInWork(memory, assessment).flatMap(({ tag, reference }) => [tag, reference]);
    const from = [...tags, ...assessment.bundles.flatMap(({ bundle, phase }) => [bundle, phase])];
    if (
      offered === undefined ||
      from.length !== offered.from.length ||
      from.some((one, i) => one !== offered?.from[i])
    ) {
      offered = { from, catalog: catalogOf(memory, assessment) };
    }
    return offered.catalog;
  }

  /** Assesses, after what the observation has made obsolete was forgotten. */
  function conclude(
    observed: Observed,
    known: Omit<Memory, 'failures' | 'isLooking'>,
    before: Snapshot | undefined,
  ): Snapshot {
    if (hasNewMedium(before, observed)) failures.forgetAll();
    areMediaKnown ||=
      media.isLookedAt() && observed.media.every(({ state }) => state.kind !== 'attached' && state.kind !== 'mounted');
    const memory = { ...known, failures: failures.list(), isLooking: !areMediaKnown };
    const assessment = assess(observed, memory, store.load(), policy);
    for (const task of listedAmong(observed, memory)) failures.succeeded(task);
    const isHeld = assessment.bundles.every((entry) => entry.unpinnedImages.length === 0);
    if (observed.runtime.kind === 'reachable') {
      if (isHeld) notePinsHeld(effects.pinRequests);
      followTags(effects.tags, assessment);
      // What was sent of a layer that the runtime has lost since then says nothing about the next preload.
      for (const digest of presentLayers) if (!assessment.presentLayers.has(digest)) deps.meter.forget(digest);
      presentLayers = assessment.presentLayers;
    }
    return { observed, memory, assessment };
  }

  /**
   * Does the effects in their order, each when what was recorded before is on the disk: none may outlive the record that it leans on. One that fails is
   * told, and the rest is done: no effect of a decision leans on another.
   */
  async function act(
    wanted: readonly Effect[],
    assessment: Assessment,
    signal: AbortSignal,
  ): Promise<Reason | undefined> {
    let first: Reason | undefined;
    for (const effect of wanted) {
      alive();
      try {
        // A task does so itself: it has to be on the list at once, to be cancelled.
        if (effect.kind !== 'start') await store.settled();
        signal.throwIfAborted();
        await execute(effects.executors, effect, assessment, signal);
        deps.afterEffect?.(effect);
      } catch (error) {
        signal.throwIfAborted();
        const reason = recorder.tellFailure(effect, assessment, error);
        first ??= reason;
      }
    }
    return first;
  }

  async function run(signal: AbortSignal): Promise<void> {
    stopping = signal;
    const stopTicking = status.tick();
    const unsubscribe = [media.onChange(kick), deps.runtime.onChange(kick)];
    try {
      while (!signal.aborted) {
        const { atLeastMs, atMostMs } = await safeRound(signal);
        alive();
        if (atLeastMs > 0) await clock.sleep(atLeastMs, signal).catch(() => undefined);
        if (atMostMs > 0) await wake.wait(atMostMs, signal);
      }
    } finally {
      stopTicking();
      for (const stop of unsubscribe) stop();
      await Promise.all([tasks.cancelAll(), mediaJobs.stop(), keeper.stop()]);
    }
  }

  /** A round must never end the daemon: what it throws is a bug or a full disk; it is told, and the next round tries anew. */
  async function safeRound(signal: AbortSignal): Promise<Pause> {
    try {
      return await round(signal);
    } catch (error) {
      if (signal.aborted) return { atLeastMs: 0, atMostMs: 0 };
      status.logTrouble(`A round failed: ${reasonOf(error)}; it is tried again`, error);
      const isOwn = !(error instanceof AppError && error.disposition === 'retry');
      const what = isOwn ? `An error in stickpin itself: ${reasonOf(error)}` : reasonOf(error);
      deps.notifier.status(oneLine(`${what}. It is tried again by itself.`));
      return { atLeastMs: BROKEN_PAUSE_MS, atMostMs: 0 };
    }
  }

  const kickAfter = <T>(value: T): T => {
    kick();
    return value;
  };
  const verdicts = createVerdicts({ clock, store, recorder, policy, assessment: () => snapshot?.assessment });

  return {
    run,
    kick,
    verdicts: {
      approve: (bundle) => kickAfter(verdicts.approve(bundle)),
      reject: (bundle) => kickAfter(verdicts.reject(bundle)),
    },
    idleMs: () => clock.monotonic() - lastSignAt,
    report: status.report,
    settled: store.settled,
    history: (bundle, limit) =>
      store.events(bundle === undefined ? undefined : findBundle(store.load().bundles, bundle).bundleId, limit),
    cancel: () => {
      const plugged = media.list().map(({ mediumId }) => mediumId);
      const bundleIds = cancelPreloads(snapshot?.assessment, plugged, store, clock.now());
      for (const task of tasks.running()) {
        if (task.kind === 'pull' && bundleIds.includes(task.bundleId)) tasks.cancel(task);
      }
      kick();
    },
    resume: () => {
      resumePreloads(
        store.load().bundles.map(({ bundleId }) => bundleId),
        store,
        clock.now(),
      );
      kick();
    },
    activate: (bundle, options) => {
      commands.activate(bundle, options);
      kick();
    },
    rollback: (stream) => {
      const to = commands.rollback(stream);
      kick();
      return to;
    },
    unpin: async (bundle, options, signal) => {
      commands.unpin(bundle, options, options.force ? NOTHING_SEEN : await running.look(signal));
      kick();
    },
    unpinUnclaimed: async (force) => {
      const done = await giveUpUnclaimed(snapshot?.assessment, force, { recorder, pinKeeper });
      kick();
      return done;
    },
  };
}

function exhaustedIn(snapshot: Snapshot | undefined): readonly BundleId[] {
  const spent = snapshot?.assessment.bundles.filter(({ reason }) => reason?.code === 'bundle/blob-missing') ?? [];
  return spent.map(({ bundle }) => bundle.bundleId);
}

function hasNewMedium(before: Snapshot | undefined, after: Observed): boolean {
  const known = new Set((before?.observed.media ?? []).map((medium) => medium.state));
  return after.media.some((medium) => medium.state.kind === 'read' && !known.has(medium.state));
}

/** Pulls that failed, whose image is there all the same. */
function listedAmong({ runtime }: Observed, { failures }: Memory): readonly RunningTask[] {
  if (failures.length === 0 || runtime.kind !== 'reachable') return [];
  const listed = new Set(runtime.images.flatMap((image) => image.repoDigests));
  return failures.flatMap(({ task }) => (task.kind === 'pull' && listed.has(task.reference) ? [task] : []));
}
