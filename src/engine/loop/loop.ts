import { trustedReleases } from '../../domain/assess/assess-order.ts';
import type { Catalog } from '../../domain/decide/catalog.ts';
import { NO_SIGHTINGS, type Sightings } from '../../domain/fleet/sightings.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import { Wake } from '../../platform/async/wake.ts';
import { LayerKeeper } from '../blobs/layer-keeper.ts';
import { RunningReleases } from '../commands/command-context.ts';
import type { EngineContext, EngineDependencies } from '../context.ts';
import { Effects } from '../effects/effects.ts';
import { createMirrorGate, type MirrorGate } from '../effects/mirror-gate.ts';
import { ContentChecker } from '../keepers/content-checker.ts';
import { DocumentKeeper, SignedKeeper } from '../keepers/document-keeper.ts';
import { HookKeeper } from '../keepers/hook-keeper.ts';
import { PullChecker } from '../keepers/pull-checker.ts';
import { RebuildKeeper } from '../keepers/rebuild-keeper.ts';
import { ReleaseKeeper } from '../keepers/release-keeper.ts';
import { ConditionKeeper, type Conditions, FloorKeeper, MirrorKeeper, PinKeeper } from '../keepers/state-keepers.ts';
import { StorageKeeper } from '../keepers/storage-keeper.ts';
import { EventRecorder } from '../reporting/event-recorder.ts';
import { Refusals } from '../reporting/events.ts';
import { RunningQueue } from '../tasks/pulls.ts';
import { createStallWatch } from '../tasks/stall-watch.ts';
import { FailureLedger, MediaJobs, type TaskEnd, Tasks } from '../tasks/tasks.ts';
import { ImageUsesReader, readContainers } from './observe.ts';
import { Pace } from './pace.ts';
import { StatusPublisher } from './status-publisher.ts';

/** What one round passes to the next. Times are monotonic milliseconds. */
export interface LoopState {
  snapshot: Snapshot | undefined;
  conditions: Conditions;
  obstacle: Fault | undefined;
  /** Since when there has been one. */
  obstacleAt: number | undefined;
  /** `observedMs`: the time to observe and to decide. */
  lastRound: { readonly at: number; readonly observedMs: number };
  /** Of containers. */
  lastObservedAt: number;
  /** When the newest pull of a pinned image by others ends, after which its pin may be lost. */
  pullsSettledAt: number;
  /** Since when the runtime has not been reached. */
  awayAt: number | undefined;
  sightings: Sightings;
  /** When they were written to the database. */
  sightingsNotedMs: number;
  /** For the watchdog. */
  lastSignAt: number;
  stopping: AbortSignal;
  /** The unknown components of `retention.keep_components` that were reported last. */
  reportedComponents: string;
  offered: { readonly from: readonly unknown[]; readonly catalog: Catalog } | undefined;
  presentLayers: ReadonlySet<Digest>;
  /** All media that were plugged in at the start have been read. */
  areMediaKnown: boolean;
  /** References that were pulled after the last observation. */
  readonly landed: Set<string>;
  /** Called after the next round that begins. */
  waiting: readonly (() => void)[];
}

function releaseIn({ snapshot }: LoopState, bundleId: BundleId) {
  const entry = snapshot?.assessment.bundles.find(({ bundle }) => bundle.bundleId === bundleId);
  return entry && { version: entry.bundle.payload.version, phase: entry.phase };
}

function contextOf(
  deps: EngineDependencies,
  { state, queue, wake }: { readonly state: LoopState; readonly queue: RunningQueue; readonly wake: Wake },
): EngineContext {
  return {
    ...deps,
    recorder: new EventRecorder({ ...deps, releaseOf: (bundleId) => releaseIn(state, bundleId) }),
    wantRound: () => {
      queue.stop();
      wake.kick();
    },
    alive: () => {
      state.lastSignAt = deps.clock.monotonic();
    },
  };
}

export type Loop = ReturnType<typeof createLoop>;

export function createLoop(deps: EngineDependencies, onTaskEnd: (task: RunningTask, end: TaskEnd) => void) {
  const { clock, store } = deps;
  const state = initialState(deps);
  const wake = new Wake(clock);
  const queue = new RunningQueue();
  const context = contextOf(deps, { state, queue, wake });
  const failures = new FailureLedger(deps.random);
  const tasks = new Tasks(onTaskEnd);
  const mediaJobs = new MediaJobs(clock, context.wantRound);
  const floorKeeper = new FloorKeeper(context);
  const layerKeeper = new LayerKeeper(context);
  const releaseKeeper = new ReleaseKeeper(context);
  const hookKeeper = new HookKeeper(context, () => releaseKeeper.installed());
  const mirrorGate = createMirrorGate(context);
  const checkers = createCheckers(context, { state, tasks, mirrorGate });
  const { contentChecker, pullChecker, storageKeeper } = checkers;
  const pinKeeper = new PinKeeper(context);
  const parts = { tasks, mediaJobs, failures, floorKeeper, pinKeeper, hookKeeper, ...checkers };
  const effects = new Effects({
    ports: context,
    ...parts,
    mirrorGate,
    stalls: createStallWatch(context),
    keeping: new Map(),
    pinRequests: { last: undefined, unenforced: new Map() },
  });
  const documentKeeper = new DocumentKeeper(context);
  return {
    ...parts,
    context,
    wake,
    queue,
    pace: new Pace(clock),
    effects,
    layerKeeper,
    mirrorKeeper: new MirrorKeeper(context),
    releaseKeeper,
    signedKeeper: new SignedKeeper(context),
    rebuildKeeper: new RebuildKeeper(context, pinKeeper),
    documentKeeper,
    imageUses: new ImageUsesReader(deps),
    conditionKeeper: new ConditionKeeper(context),
    running: new RunningReleases(store, (signal) => readContainers(deps, signal)),
    refusals: new Refusals(),
    status: new StatusPublisher({
      ...context,
      underWay: () => ({
        running: tasks.running(),
        copyingBytes: layerKeeper.copyingBytes(),
        keeping: new Map(effects.context.keeping),
        pullChecks: pullChecker.checks(),
        contentChecks: contentChecker.checks(),
        storage: storageKeeper.syncs(),
      }),
      landed: () => [...state.landed],
      seen: () => state.snapshot && { ...state.snapshot, conditions: state.conditions },
    }),
    state,
    /** Stopped with the rounds. */
    background: [mediaJobs, layerKeeper, releaseKeeper, hookKeeper, documentKeeper, ...Object.values(checkers)],
  };
}

interface CheckedParts {
  readonly state: LoopState;
  readonly tasks: Tasks;
  readonly mirrorGate: MirrorGate;
}

function createCheckers(context: EngineContext, { state, tasks, mirrorGate }: CheckedParts) {
  return {
    contentChecker: new ContentChecker(context, tasks),
    pullChecker: new PullChecker(
      context,
      () => (state.snapshot === undefined ? [] : trustedReleases(state.snapshot.assessment)),
      () => arePinsLost(state),
      (repository) => mirrorGate.prove(repository),
    ),
    storageKeeper: new StorageKeeper(context),
  };
}

function arePinsLost({ snapshot }: LoopState): boolean {
  const runtime = snapshot?.observed.runtime;
  return runtime?.kind === 'reachable' && runtime.arePinsLostByPulls === true;
}

function initialState({ clock, store }: EngineDependencies): LoopState {
  return {
    snapshot: undefined,
    conditions: new Map(),
    obstacle: undefined,
    obstacleAt: undefined,
    lastRound: { at: clock.monotonic(), observedMs: 0 },
    lastObservedAt: Number.NEGATIVE_INFINITY,
    pullsSettledAt: Number.NEGATIVE_INFINITY,
    awayAt: undefined,
    sightings: store.load().sightings ?? NO_SIGHTINGS,
    sightingsNotedMs: clock.monotonic(),
    lastSignAt: clock.monotonic(),
    stopping: new AbortController().signal,
    offered: undefined,
    reportedComponents: '',
    presentLayers: new Set(),
    areMediaKnown: false,
    landed: new Set(),
    waiting: [],
  };
}
