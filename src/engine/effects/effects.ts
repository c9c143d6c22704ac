import type { Assessment } from '../../domain/assess/assess.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Policy } from '../../domain/settings/settings.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { AttachmentStore, BlobUnion, DocumentStore } from '../../ports/blobs.ts';
import type { ContentPort } from '../../ports/image-content.ts';
import type { MediaPort } from '../../ports/media.ts';
import type { NodePort } from '../../ports/node.ts';
import type { ContainersPort, RuntimePort } from '../../ports/runtime.ts';
import type { SignedBundles } from '../../ports/signed-bundles.ts';
import type {
  ActivationStore,
  AdoptionStore,
  Durability,
  EventLog,
  MilestoneStore,
  PreloadStore,
  RetirementStore,
  StateReader,
  TagStore,
} from '../../ports/state.ts';
import type { MirrorProbes, TransferMeter } from '../../ports/transfers.ts';
import type { TrustPort } from '../../ports/trust.ts';
import type { ContentChecker } from '../keepers/content-checker.ts';
import type { FloorKeeper } from '../keepers/floor-keeper.ts';
import type { HookKeeper } from '../keepers/hook-keeper.ts';
import type { PullChecker } from '../keepers/pull-checker.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { FailureLedger } from '../tasks/failures.ts';
import type { MediaJobs } from '../tasks/media-jobs.ts';
import { createStallWatch } from '../tasks/stall-watch.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { adoptionExecutors, type KeptDocuments } from './adoption-effects.ts';
import { contentExecutors } from './content-effects.ts';
import type { Executors } from './executor.ts';
import { lifecycleExecutors } from './lifecycle-effects.ts';
import { mediaExecutors } from './media-effects.ts';
import { createMirrorGate, type MirrorGate } from './mirror-gate.ts';
import { createPinRequests, type PinRequests, pinExecutors } from './pin-effects.ts';
import { recordExecutors } from './record-effects.ts';
import { createTagEffects, type TagEffects } from './tag-effects.ts';
import { startTask, taskExecutors } from './task-effects.ts';

/** What executors record: everything but the history, conditions, and decisions of people. */
type EffectRecords = StateReader &
  Pick<Durability, 'settled'> &
  Pick<EventLog, 'events'> &
  AdoptionStore &
  PreloadStore &
  ActivationStore &
  MilestoneStore &
  RetirementStore &
  TagStore;

/** The adapters of all executors. Each family takes its part. */
export interface EffectDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly media: MediaPort;
  readonly runtime: RuntimePort;
  readonly containers: ContainersPort;
  readonly content: ContentPort;
  readonly store: EffectRecords;
  /** The store of manifests and configs of adopted bundles. */
  readonly documents: DocumentStore & AttachmentStore;
  /** What proves the signatures of adopted bundles. */
  readonly signedBundles: SignedBundles;
  /** All sources of blobs: media and local stores. */
  readonly source: BlobUnion;
  readonly meter: TransferMeter;
  readonly probes: MirrorProbes;
  /**
   * How long a pull may make no progress before it is aborted, in milliseconds (`preload.stall`).
   */
  readonly stallMs: number;
  readonly tasks: Tasks;
  readonly mediaJobs: MediaJobs;
  readonly failures: FailureLedger;
  readonly policy: Policy;
  readonly trust: TrustPort;
  readonly node: NodePort;
  readonly recorder: EventRecorder;
  readonly floorKeeper: FloorKeeper;
  readonly hookKeeper: Pick<HookKeeper, 'start'>;
  readonly contentChecker: Pick<ContentChecker, 'healing' | 'removed'>;
  readonly pullChecker: Pick<PullChecker, 'answered'>;
  /** Called when an effect makes progress, for the watchdog. */
  readonly alive: () => void;
}

/** The executor of each effect, and the state that the next decision reads. */
export interface Effects {
  readonly executors: Executors;
  /** Executes `start`. Synchronous: the task is listed when it returns. */
  readonly start: (task: RunningTask, assessment: Assessment) => void;
  readonly keeping: KeptDocuments;
  readonly pinRequests: PinRequests;
  readonly tags: TagEffects;
  readonly mirrorGate: Pick<MirrorGate, 'prove'>;
}

/**
 * Builds the executors. Each family of effects is one file. A kind without an executor is a compile
 * error.
 */
export function createEffects(deps: EffectDependencies): Effects {
  const keeping: KeptDocuments = new Map();
  const pinRequests = createPinRequests();
  const mirrorGate = createMirrorGate(deps);
  const stalls = createStallWatch(deps);
  const tags = createTagEffects({ ...deps, mirrorGate, stalls });
  const pulls = {
    ...deps,
    stalls,
    mirrorGate,
    pinRequests,
    reportedElsewhere: new Set<BundleId>(),
  };
  const starting = { ...deps, pulls, tags };
  const executors: Executors = {
    ...mediaExecutors(deps),
    ...adoptionExecutors({ ...deps, keeping }),
    ...pinExecutors({ ...deps, pinRequests, mirrorGate }),
    ...recordExecutors(deps),
    ...lifecycleExecutors(deps),
    ...contentExecutors(deps),
    ...taskExecutors(starting),
  };
  const start = (task: RunningTask, assessment: Assessment) => startTask(starting, task, assessment);
  return { executors, start, keeping, pinRequests, tags, mirrorGate };
}
