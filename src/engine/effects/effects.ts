import type { Assessment } from '../../domain/assess/assess.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { Policy } from '../../domain/state/state.ts';
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { BlobUnion, DocumentStore } from '../../ports/blobs.ts';
import type { MediaPort } from '../../ports/media.ts';
import type { ContainersPort, RuntimePort } from '../../ports/runtime.ts';
import type { StateStore } from '../../ports/state.ts';
import type { TransferMeter } from '../../ports/transfers.ts';
import type { FloorKeeper } from '../keepers/floor-keeper.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { FailureLedger } from '../tasks/failures.ts';
import type { MediaJobs } from '../tasks/media-jobs.ts';
import { createStallWatch } from '../tasks/stall-watch.ts';
import type { Tasks } from '../tasks/tasks.ts';
import { adoptionExecutors, type KeptDocuments } from './adoption-effects.ts';
import type { Executors } from './executor.ts';
import { lifeExecutors } from './life-effects.ts';
import { mediaExecutors } from './media-effects.ts';
import { createMirrorGate } from './mirror-gate.ts';
import { createPinRequests, type PinRequests, pinExecutors } from './pin-effects.ts';
import { recordExecutors } from './record-effects.ts';
import { createTagEffects, type TagEffects } from './tag-effects.ts';
import { startTask, taskExecutors } from './task-effects.ts';

/** What all executors together act on. Each family takes its part. */
export interface EffectDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly media: MediaPort;
  readonly runtime: RuntimePort;
  readonly containers: ContainersPort;
  readonly store: StateStore;
  /** Where manifests and configs of adopted bundles are kept. */
  readonly documents: DocumentStore;
  /** Where blobs are found: media and local stores together. */
  readonly source: BlobUnion;
  readonly meter: TransferMeter;
  /**
   * How long nothing of a pull may move before it is broken off, in milliseconds: `preload.stall`.
   */
  readonly stallMs: number;
  readonly tasks: Tasks;
  readonly mediaJobs: MediaJobs;
  readonly failures: FailureLedger;
  readonly policy: Policy;
  readonly recorder: EventRecorder;
  readonly floorKeeper: FloorKeeper;
  /** Called whenever it is seen that an effect goes on, for the watchdog. */
  readonly alive: () => void;
}

/** The executor of each effect, and what the executors remember for the next decision. */
export interface Effects {
  readonly executors: Executors;
  /** The executor of `start`, which is synchronous: the task is listed when it returns. */
  readonly start: (task: RunningTask, assessment: Assessment) => void;
  readonly keeping: KeptDocuments;
  readonly pinRequests: PinRequests;
  readonly tags: TagEffects;
}

/**
 * The executors over the given adapters. A family of effects is one file; a kind without an
 * executor is an error of the compiler.
 */
export function createEffects(deps: EffectDependencies): Effects {
  const keeping: KeptDocuments = new Map();
  const pinRequests = createPinRequests();
  const tags = createTagEffects(deps);
  const mirrorGate = createMirrorGate(deps);
  const pulls = {
    ...deps,
    stalls: createStallWatch(deps),
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
    ...lifeExecutors(deps),
    ...taskExecutors(starting),
  };
  const start = (task: RunningTask, assessment: Assessment) => startTask(starting, task, assessment);
  return { executors, start, keeping, pinRequests, tags };
}
