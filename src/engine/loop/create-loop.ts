import { trustedReleases } from '../../domain/assess/assess-order.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { LayerKeeper } from '../blobs/layer-keeper.ts';
import { createRunningReleases } from '../commands/running-releases.ts';
import type { EngineContext, EngineDependencies } from '../context.ts';
import { createEffects } from '../effects/effects.ts';
import { ConditionKeeper } from '../keepers/condition-keeper.ts';
import { ContentChecker } from '../keepers/content-checker.ts';
import { CopyKeeper } from '../keepers/copy-keeper.ts';
import { DocumentKeeper } from '../keepers/document-keeper.ts';
import { FloorKeeper } from '../keepers/floor-keeper.ts';
import { HookKeeper } from '../keepers/hook-keeper.ts';
import { PinKeeper } from '../keepers/pin-keeper.ts';
import { PullChecker } from '../keepers/pull-checker.ts';
import { RebuildKeeper } from '../keepers/rebuild-keeper.ts';
import { ReleaseKeeper } from '../keepers/release-keeper.ts';
import { SignedKeeper } from '../keepers/signed-keeper.ts';
import { createEventRecorder } from '../reporting/event-recorder.ts';
import { createRefusals } from '../reporting/refusals.ts';
import { createStatusPublisher, type StatusPublisher } from '../reporting/status-publisher.ts';
import { createFailureLedger } from '../tasks/failures.ts';
import { createMediaJobs } from '../tasks/media-jobs.ts';
import { createRunningQueue } from '../tasks/pull-queue.ts';
import { createTasks } from '../tasks/tasks.ts';
import { createWake } from '../tasks/wake.ts';
import { followTask } from './act.ts';
import { createImageUsesLook } from './image-uses.ts';
import { alive, kick, type Loop, type LoopState } from './loop.ts';
import { lookAtContainers } from './observe.ts';
import { Pace } from './pace.ts';

/** What the journal says of a bundle beside its digest. */
function releaseIn({ snapshot }: LoopState, bundleId: BundleId) {
  const entry = snapshot?.assessment.bundles.find(({ bundle }) => bundle.bundleId === bundleId);
  return entry && { version: entry.bundle.payload.version, phase: entry.phase };
}

/** Builds the parts of an engine, before its first round. */
export function createLoop(deps: EngineDependencies): Loop {
  const { clock, store } = deps;
  const state = initialState(deps);
  const wake = createWake(clock);
  const queue = createRunningQueue();
  const context: EngineContext = {
    ...deps,
    recorder: createEventRecorder({ ...deps, releaseOf: (bundleId) => releaseIn(state, bundleId) }),
    wantRound: () => kick({ queue, wake }),
    alive: () => alive({ deps, state }),
  };
  const failures = createFailureLedger(deps.random);
  const tasks = createTasks((task, end) => followTask(loop, task, end));
  const mediaJobs = createMediaJobs(clock, context.wantRound);
  const floorKeeper = new FloorKeeper(context);
  const layerKeeper = new LayerKeeper(context);
  const releaseKeeper = new ReleaseKeeper(context);
  const hookKeeper = new HookKeeper(context, () => releaseKeeper.installed());
  const pullChecker = new PullChecker(
    context,
    () => (state.snapshot === undefined ? [] : trustedReleases(state.snapshot.assessment)),
    () => arePinsLost(state),
    (repository) => effects.mirrorGate.prove(repository),
  );
  const contentChecker = new ContentChecker(context, tasks);
  const parts = { tasks, mediaJobs, failures, floorKeeper, hookKeeper, contentChecker, pullChecker };
  const effects = createEffects({ ...context, ...parts });
  const documentKeeper = new DocumentKeeper(context);
  const loop: Loop = {
    ...parts,
    deps,
    wake,
    queue,
    pace: new Pace(clock),
    effects,
    layerKeeper,
    copyKeeper: new CopyKeeper(context),
    pinKeeper: new PinKeeper(context),
    releaseKeeper,
    signedKeeper: new SignedKeeper(context),
    rebuildKeeper: new RebuildKeeper(context),
    documentKeeper,
    imageUses: createImageUsesLook(deps),
    conditionKeeper: new ConditionKeeper(context),
    running: createRunningReleases({ store, lookNow: (signal) => lookAtContainers(deps, signal) }),
    recorder: context.recorder,
    refusals: createRefusals(),
    status: statusOf({ deps, state, tasks, layerKeeper, effects, pullChecker, contentChecker }),
    state,
    background: [mediaJobs, layerKeeper, releaseKeeper, hookKeeper, pullChecker, contentChecker, documentKeeper],
  };
  return loop;
}

function arePinsLost({ snapshot }: LoopState): boolean {
  const runtime = snapshot?.observed.runtime;
  return runtime?.kind === 'reachable' && runtime.arePinsLostByPulls === true;
}

function initialState({ clock }: EngineDependencies): LoopState {
  return {
    snapshot: undefined,
    conditions: new Map(),
    obstacle: undefined,
    lastRound: { at: clock.monotonic(), lookMs: 0 },
    lastLookAt: Number.NEGATIVE_INFINITY,
    pullsSettledAt: Number.NEGATIVE_INFINITY,
    lastSignAt: clock.monotonic(),
    stopping: new AbortController().signal,
    offered: undefined,
    toldComponents: '',
    presentLayers: new Set(),
    areMediaKnown: false,
    landed: new Set(),
  };
}

function statusOf({
  deps,
  state,
  tasks,
  layerKeeper,
  effects,
  pullChecker,
  contentChecker,
}: Pick<
  Loop,
  'deps' | 'state' | 'tasks' | 'layerKeeper' | 'effects' | 'pullChecker' | 'contentChecker'
>): StatusPublisher {
  return createStatusPublisher({
    ...deps,
    underWay: () => ({
      running: tasks.running(),
      copyingBytes: layerKeeper.copyingBytes(),
      keeping: new Map(effects.keeping),
      pullChecks: pullChecker.checks(),
      contentChecks: contentChecker.checks(),
    }),
    landed: () => [...state.landed],
    seen: () => state.snapshot && { ...state.snapshot, conditions: state.conditions },
  });
}
