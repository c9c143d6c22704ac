import type { Catalog } from '../../domain/decide/catalog.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Wake } from '../../platform/async/wake.ts';
import type { LayerKeeper } from '../blobs/layer-keeper.ts';
import type { RunningReleases } from '../commands/running-releases.ts';
import type { EngineContext } from '../context.ts';
import type { Effects } from '../effects/effects.ts';
import type { ContentChecker } from '../keepers/content-checker.ts';
import type { DocumentKeeper, SignedKeeper } from '../keepers/document-keeper.ts';
import type { HookKeeper } from '../keepers/hook-keeper.ts';
import type { PinKeeper } from '../keepers/pin-keeper.ts';
import type { PullChecker } from '../keepers/pull-checker.ts';
import type { RebuildKeeper } from '../keepers/rebuild-keeper.ts';
import type { ReleaseKeeper } from '../keepers/release-keeper.ts';
import type { ConditionKeeper, Conditions, CopyKeeper, FloorKeeper } from '../keepers/state-keepers.ts';
import type { Refusals } from '../reporting/pull-messages.ts';
import type { StatusPublisher } from '../reporting/status-publisher.ts';
import type { FailureLedger } from '../tasks/failures.ts';
import type { RunningQueue } from '../tasks/pull-queue.ts';
import type { MediaJobs, Tasks } from '../tasks/tasks.ts';
import type { ImageUsesReader } from './observe.ts';
import type { Pace } from './pace.ts';

export interface Loop {
  readonly context: EngineContext;
  readonly wake: Wake;
  readonly queue: RunningQueue;
  readonly pace: Pace;
  readonly tasks: Tasks;
  readonly mediaJobs: MediaJobs;
  readonly failures: FailureLedger;
  readonly effects: Effects;
  readonly layerKeeper: LayerKeeper;
  readonly copyKeeper: CopyKeeper;
  readonly pinKeeper: PinKeeper;
  readonly floorKeeper: FloorKeeper;
  readonly releaseKeeper: ReleaseKeeper;
  readonly signedKeeper: SignedKeeper;
  readonly rebuildKeeper: RebuildKeeper;
  readonly hookKeeper: HookKeeper;
  readonly pullChecker: PullChecker;
  readonly contentChecker: ContentChecker;
  readonly documentKeeper: DocumentKeeper;
  readonly imageUses: ImageUsesReader;
  readonly conditionKeeper: ConditionKeeper;
  readonly running: RunningReleases;
  readonly refusals: Refusals;
  readonly status: StatusPublisher;
  readonly state: LoopState;
  /** Stopped with the rounds. */
  readonly background: readonly { stop(): Promise<void> }[];
}

/** What one round passes to the next. Times are monotonic milliseconds. */
export interface LoopState {
  snapshot: Snapshot | undefined;
  conditions: Conditions;
  obstacle: Fault | undefined;
  /** `observedMs`: the time to observe and to decide. */
  lastRound: { readonly at: number; readonly observedMs: number };
  /** Of containers. */
  lastObservedAt: number;
  /** When the newest pull of a pinned image by others ends, after which its pin may be lost. */
  pullsSettledAt: number;
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
}
