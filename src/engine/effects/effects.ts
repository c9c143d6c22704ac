import type { Assessment } from '../../domain/assess/assess.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { EngineContext } from '../context.ts';
import type { ContentChecker } from '../keepers/content-checker.ts';
import type { FloorKeeper } from '../keepers/floor-keeper.ts';
import type { HookKeeper } from '../keepers/hook-keeper.ts';
import type { PullChecker } from '../keepers/pull-checker.ts';
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

/** The context, and the parts of the engine that executors use. */
export interface EffectDependencies extends EngineContext {
  readonly tasks: Tasks;
  readonly mediaJobs: MediaJobs;
  readonly failures: FailureLedger;
  readonly floorKeeper: FloorKeeper;
  readonly hookKeeper: HookKeeper;
  readonly contentChecker: ContentChecker;
  readonly pullChecker: PullChecker;
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
