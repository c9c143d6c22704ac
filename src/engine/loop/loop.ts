import type { Arriving, Catalog } from '../../domain/decide/catalog.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { StatusReport } from '../../domain/report/report.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { KnownRelease } from '../../domain/state/known-release.ts';
import type { BlobSource, LayerCopies, LayerInventory } from '../../ports/blobs.ts';
import type { FleetPort } from '../../ports/fleet.ts';
import type { HookRunner, HookStore } from '../../ports/hooks.ts';
import type { BootMark } from '../../ports/image-content.ts';
import type { ServiceNotifier } from '../../ports/node.ts';
import type { ReleaseFiles } from '../../ports/release-files.ts';
import type { FloorStore, PinLedgerStore, StateStore } from '../../ports/state.ts';
import type { StaticPodsPort } from '../../ports/static-pods.ts';
import type { TrustPort } from '../../ports/trust.ts';
import type { LayerKeeper } from '../blobs/layer-keeper.ts';
import type { RunningReleases } from '../commands/running-releases.ts';
import type { EffectDependencies, Effects } from '../effects/effects.ts';
import type { ConditionKeeper, Conditions } from '../keepers/condition-keeper.ts';
import type { ContentChecker } from '../keepers/content-checker.ts';
import type { CopyKeeper } from '../keepers/copy-keeper.ts';
import type { DocumentKeeper } from '../keepers/document-keeper.ts';
import type { FloorKeeper } from '../keepers/floor-keeper.ts';
import type { HookKeeper } from '../keepers/hook-keeper.ts';
import type { PinKeeper } from '../keepers/pin-keeper.ts';
import type { PullChecker } from '../keepers/pull-checker.ts';
import type { RebuildKeeper } from '../keepers/rebuild-keeper.ts';
import type { ReleaseKeeper } from '../keepers/release-keeper.ts';
import type { SignedKeeper } from '../keepers/signed-keeper.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { Refusals } from '../reporting/refusals.ts';
import type { StatusPublisher } from '../reporting/status-publisher.ts';
import type { FailureLedger } from '../tasks/failures.ts';
import type { MediaJobs } from '../tasks/media-jobs.ts';
import type { RunningQueue } from '../tasks/pull-queue.ts';
import type { Tasks } from '../tasks/tasks.ts';
import type { Wake } from '../tasks/wake.ts';
import type { ImageUsesLook } from './image-uses.ts';
import type { Pace } from './pace.ts';

/** The adapters and settings of the engine. */
export interface EngineDependencies
  extends Omit<
    EffectDependencies,
    | 'tasks'
    | 'mediaJobs'
    | 'failures'
    | 'recorder'
    | 'alive'
    | 'floorKeeper'
    | 'hookKeeper'
    | 'contentChecker'
    | 'pullChecker'
    | 'store'
  > {
  readonly store: StateStore;
  /** Where layers are kept. */
  readonly layers: LayerInventory & LayerCopies & Pick<BlobSource, 'sizeOf'>;
  readonly pinLedger: PinLedgerStore;
  readonly floors: FloorStore;
  /**
   * Manifests and configs that the runtime has of its images. Default: lost ones are not looked
   * for.
   */
  readonly storedDocuments?: Pick<BlobSource, 'sizeOf' | 'read'> | undefined;
  /** Default: nothing is remembered, and no check is due. */
  readonly bootMark?: BootMark;
  /** Problems of the stored state that were found at the start. Default none. */
  readonly stateProblems?: readonly Fault[];
  /**
   * The database is new after a loss, or an earlier copy of the one that was lost. Default false.
   */
  readonly isStateLost?: boolean;
  /** As `Memory.reportedBefore`. */
  readonly reportedBefore?: readonly KnownRelease[];
  readonly trust: TrustPort;
  readonly releaseFiles: ReleaseFiles;
  readonly hookRunner: HookRunner;
  readonly hookStore: HookStore;
  /** Default: there are no static pods. */
  readonly staticPods?: StaticPodsPort;
  /** Default: the fleet process does not answer. */
  readonly fleet?: FleetPort | undefined;
  readonly notifier: ServiceNotifier;
  /** 0 to 1, as Math.random. Spreads retries over time. */
  readonly random: () => number;
  /** Tells the registry what it may serve. */
  readonly setCatalog: (catalog: Catalog, arriving: Arriving) => void;
  /**
   * Resolves when what follows from the last report is written, so that hooks find it. Default: at
   * once.
   */
  readonly statusSettled?: () => Promise<void>;
  /** Called with every new report. */
  readonly onStatus: (report: StatusReport) => void;
  /** Called after each effect. For a long effect: after its start. */
  readonly afterEffect?: ((effect: Effect) => void) | undefined;
}

/** The parts of the engine, and the state that one round passes to the next. */
export interface Loop {
  readonly deps: EngineDependencies;
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
  readonly imageUses: ImageUsesLook;
  readonly conditionKeeper: ConditionKeeper;
  readonly running: RunningReleases;
  readonly recorder: EventRecorder;
  readonly refusals: Refusals;
  readonly status: StatusPublisher;
  readonly state: LoopState;
}

/** State that changes from round to round. Times are monotonic milliseconds. */
export interface LoopState {
  /** Observation and conclusions of the last round. Undefined before the first. */
  snapshot: Snapshot | undefined;
  conditions: Conditions;
  /** Why an effect of the last round failed. Undefined when none did. */
  obstacle: Fault | undefined;
  /** When the last round began, and how long it took to observe and to decide. */
  lastRound: { readonly at: number; readonly lookMs: number };
  /** When containers were last observed. */
  lastLookAt: number;
  /** When the newest pull of a pinned image by others is over, and its pin may be lost. */
  pullsSettledAt: number;
  /** When the engine last made progress, for the watchdog. */
  lastSignAt: number;
  /** Aborts when the engine must stop. */
  stopping: AbortSignal;
  /** The unknown components of `retention.keep_components` that were told last. */
  toldComponents: string;
  /** The catalog that was given to the registry, and its inputs. */
  offered: { readonly from: readonly unknown[]; readonly catalog: Catalog } | undefined;
  presentLayers: ReadonlySet<Digest>;
  /** Whether all media that were plugged in at the start have been read. */
  areMediaKnown: boolean;
  /** References that were pulled after the last observation of the runtime. */
  readonly landed: Set<string>;
}

/**
 * Asks for a round now. Pulls that would start without a round wait for it, because the cause of
 * the request may be a reason not to pull.
 */
export function kick({ queue, wake }: Pick<Loop, 'queue' | 'wake'>): void {
  queue.stop();
  wake.kick();
}

/** Records progress of the engine, for the watchdog. */
export function alive({ deps, state }: Pick<Loop, 'deps' | 'state'>): void {
  state.lastSignAt = deps.clock.monotonic();
}
