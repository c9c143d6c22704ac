import { trustedReleases } from '../../domain/assess/assess-order.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Kept, RunningTask } from '../../domain/state/memory.ts';
import { RunningReleases } from '../commands/command-context.ts';
import type { EngineContext, Part } from '../context.ts';
import type { PinRequests } from '../effects/effect-context.ts';
import { ContentChecker } from '../keepers/content-checker.ts';
import { DocumentKeeper, SignedKeeper } from '../keepers/document-keeper.ts';
import { HookKeeper } from '../keepers/hook-keeper.ts';
import { LayerKeeper } from '../keepers/layer-keeper.ts';
import { PullChecker } from '../keepers/pull-checker.ts';
import { RebuildKeeper } from '../keepers/rebuild-keeper.ts';
import { ReleaseKeeper } from '../keepers/release-keeper.ts';
import { ConditionKeeper, FloorKeeper, MirrorKeeper, PinKeeper } from '../keepers/state-keepers.ts';
import { StorageKeeper } from '../keepers/storage-keeper.ts';
import { MediaJobs } from '../tasks/jobs.ts';
import { createMirrorGate } from '../tasks/mirror-gate.ts';
import { createStallWatch } from '../tasks/stall-watch.ts';
import { FailureLedger, type TaskEnd, Tasks } from '../tasks/tasks.ts';
import { readContainers } from './observe.ts';

/** What the engine is made of. */
export type Parts = ReturnType<typeof createParts>;

/** @param seen what the last round observed and concluded */
export function createParts(
  ports: EngineContext,
  seen: () => Snapshot | undefined,
  onTaskEnd: (task: RunningTask, end: TaskEnd) => void,
) {
  const { clock, log, jobs, store, recorder, policy, trust, alive, wantRound } = ports;
  const { documents, layers, source, signedBundles, releaseFiles, bootMark, content, runtime, meter, probes } = ports;
  const tasks = new Tasks(onTaskEnd);
  const mirrorGate = createMirrorGate(ports);
  const running = new RunningReleases(store, (signal) => readContainers(ports, signal));
  const contentChecker = new ContentChecker(tasks, jobs, clock, log, store, recorder, content, documents, bootMark);
  const trusted = () => trustedReleases(seen()?.assessment ?? { bundles: [] });
  const arePinsLost = () => arePinsLostIn(seen());
  const prove = (repository: string) => mirrorGate.prove(repository);
  const pullChecker = new PullChecker(jobs, clock, runtime, meter, probes, wantRound, trusted, arePinsLost, prove);
  const layerKeeper = new LayerKeeper(jobs, clock, log, layers, source);
  const storageKeeper = new StorageKeeper(jobs, clock, log, ports.disk, bootMark);
  const pinKeeper = new PinKeeper(ports.pinLedger, log);
  const isLost = ports.isStateLost ?? false;
  const rebuildKeeper = new RebuildKeeper(store, policy, signedBundles, trust, recorder, alive, isLost, pinKeeper, log);
  const floorKeeper = new FloorKeeper(ports.floors, store, log);
  const releaseKeeper = new ReleaseKeeper(jobs, clock, recorder, releaseFiles, documents, source, alive, wantRound);
  const hookKeeper = new HookKeeper(ports, () => releaseKeeper.installed());
  const pinRequests: PinRequests = { last: undefined, unenforced: new Map() };
  /** INVARIANT: they are reconciled in this order. */
  const inOrder: readonly Part[] = [
    contentChecker,
    running,
    new MirrorKeeper(store, log),
    layerKeeper,
    storageKeeper,
    pinKeeper,
    floorKeeper,
    new SignedKeeper(signedBundles, store, log),
    releaseKeeper,
    hookKeeper,
  ];
  return {
    ports,
    inOrder,
    tasks,
    failures: new FailureLedger(ports.random),
    mediaJobs: new MediaJobs(jobs, clock, wantRound),
    mirrorGate,
    stalls: createStallWatch(ports),
    running,
    contentChecker,
    pullChecker,
    documentKeeper: new DocumentKeeper(jobs, clock, log, documents, ports.storedDocuments, source),
    layerKeeper,
    storageKeeper,
    pinKeeper,
    floorKeeper,
    hookKeeper,
    rebuildKeeper,
    conditionKeeper: new ConditionKeeper(store, log),
    keeping: new Map<BundleId, Kept>(),
    pinRequests,
  };
}

function arePinsLostIn(seen: Snapshot | undefined): boolean {
  const runtime = seen?.observed.runtime;
  return runtime?.kind === 'reachable' && runtime.arePinsLostByPulls === true;
}
