import { trustedReleases } from '../../domain/assess/trusted-releases.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { createLayerKeeper } from '../blobs/layer-keeper.ts';
import { createRunningReleases } from '../commands/running-releases.ts';
import { createEffects } from '../effects/effects.ts';
import { createConditionKeeper } from '../keepers/condition-keeper.ts';
import { createContentChecker } from '../keepers/content-checker.ts';
import { createCopyKeeper } from '../keepers/copy-keeper.ts';
import { createDocumentKeeper } from '../keepers/document-keeper.ts';
import { createFloorKeeper } from '../keepers/floor-keeper.ts';
import { createHookKeeper } from '../keepers/hook-keeper.ts';
import { createPinKeeper } from '../keepers/pin-keeper.ts';
import { createPullChecker } from '../keepers/pull-checker.ts';
import { createRebuildKeeper } from '../keepers/rebuild-keeper.ts';
import { createReleaseKeeper } from '../keepers/release-keeper.ts';
import { createSignedKeeper } from '../keepers/signed-keeper.ts';
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
import { alive, type EngineDependencies, kick, type Loop, type LoopState } from './loop.ts';
import { lookAtContainers } from './observe.ts';
import { createPace } from './pace.ts';

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
  const wantRound = () => kick({ queue, wake });
  const isAlive = () => alive({ deps, state });
  const recorder = createEventRecorder({ ...deps, releaseOf: (bundleId) => releaseIn(state, bundleId) });
  const failures = createFailureLedger(deps.random);
  const tasks = createTasks((task, end) => followTask(loop, task, end));
  const mediaJobs = createMediaJobs(clock, wantRound);
  const floorKeeper = createFloorKeeper(deps);
  const layerKeeper = createLayerKeeper(deps, wantRound);
  const releaseKeeper = createReleaseKeeper({ ...deps, recorder, alive: isAlive, wantRound });
  const hookKeeper = createHookKeeper({ ...deps, recorder, installed: releaseKeeper.installed, wantRound });
  const pullChecker = createPullChecker({
    ...deps,
    releases: () => (state.snapshot === undefined ? [] : trustedReleases(state.snapshot.assessment)),
    onAsked: (repository) => effects.mirrorGate.prove(repository),
    wantRound,
  });
  const contentChecker = createContentChecker({ ...deps, tasks, recorder, wantRound });
  const effects = createEffects({
    ...deps,
    pullChecker,
    hookKeeper,
    contentChecker,
    tasks,
    mediaJobs,
    failures,
    recorder,
    floorKeeper,
    alive: isAlive,
  });
  const loop: Loop = {
    deps,
    wake,
    queue,
    pace: createPace(),
    tasks,
    mediaJobs,
    failures,
    effects,
    layerKeeper,
    copyKeeper: createCopyKeeper(deps),
    pinKeeper: createPinKeeper(deps),
    floorKeeper,
    releaseKeeper,
    signedKeeper: createSignedKeeper(deps),
    rebuildKeeper: createRebuildKeeper({ ...deps, recorder, alive: isAlive }),
    hookKeeper,
    pullChecker,
    contentChecker,
    documentKeeper: createDocumentKeeper({ ...deps, wantRound }),
    imageUses: createImageUsesLook(deps),
    conditionKeeper: createConditionKeeper(deps),
    running: createRunningReleases({ store, lookNow: (signal) => lookAtContainers(deps, signal) }),
    recorder,
    refusals: createRefusals(),
    status: statusOf({ deps, state, tasks, layerKeeper, effects, pullChecker, contentChecker }),
    state,
  };
  return loop;
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
