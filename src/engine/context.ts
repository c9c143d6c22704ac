import type { Arriving, Catalog } from '../domain/decide/catalog.ts';
import type { KeepPlan } from '../domain/decide/pull-plan.ts';
import type { Condition } from '../domain/model/condition.ts';
import type { BundleId } from '../domain/model/digest.ts';
import type { Fault } from '../domain/model/reason.ts';
import type { Snapshot } from '../domain/report/snapshot.ts';
import type { StatusReport } from '../domain/report/status-schema.ts';
import type { Policy } from '../domain/settings/settings.ts';
import type { Effect } from '../domain/state/effect.ts';
import type { Observed } from '../domain/state/state.ts';
import type { Clock } from '../platform/clock.ts';
import type { Log } from '../platform/log.ts';
import type {
  AttachmentStore,
  BlobSource,
  BlobUnion,
  DocumentStore,
  LayerCopies,
  LayerInventory,
  ReleaseFiles,
  SignedBundles,
} from '../ports/blobs.ts';
import type { FleetPort } from '../ports/fleet.ts';
import type { MediaPort } from '../ports/media.ts';
import type { HookRunner, HookStore, NodePort, ServiceNotifier, StaticPodsPort } from '../ports/node.ts';
import type { BootMark, ContainersPort, ContentPort, RuntimePort, StoragePort } from '../ports/runtime.ts';
import type { FloorStore, PinLedgerStore, StateStore } from '../ports/state.ts';
import type { MirrorProbes, TransferMeter } from '../ports/transfers.ts';
import type { TrustPort } from '../ports/trust.ts';
import type { EventRecorder } from './reporting/event-recorder.ts';
import type { Jobs } from './tasks/jobs.ts';

export interface EngineDependencies {
  readonly clock: Clock;
  readonly log: Log;
  readonly policy: Policy;
  readonly store: StateStore;
  readonly pinLedger: PinLedgerStore;
  readonly floors: FloorStore;
  readonly trust: TrustPort;
  readonly node: NodePort;
  readonly media: MediaPort;
  readonly runtime: RuntimePort;
  readonly containers: ContainersPort;
  readonly content: ContentPort;
  readonly source: BlobUnion;
  /** Manifests, configs and attachments of adopted bundles. */
  readonly documents: DocumentStore & AttachmentStore;
  /** Manifests and configs that the runtime has. Absent: lost ones are not restored. */
  readonly storedDocuments?: BlobSource | undefined;
  /** Layers on the node's own disk. */
  readonly layers: LayerInventory & LayerCopies & BlobSource;
  readonly signedBundles: SignedBundles;
  readonly meter: TransferMeter;
  readonly probes: MirrorProbes;
  /** How long a pull may make no progress, in milliseconds (`preload.stall`). */
  readonly stallMs: number;
  readonly bootMark: BootMark;
  /** Absent: nothing outlives the run, as in a rehearsal. */
  readonly disk?: StoragePort | undefined;
  readonly stateProblems?: readonly Fault[];
  /** The database is new after a loss, or an earlier one. */
  readonly isStateLost?: boolean;
  /** Called after each round that recorded all it had to. */
  readonly afterRound?: () => void;
  readonly releaseFiles: ReleaseFiles;
  readonly hookRunner: HookRunner;
  readonly hookStore: HookStore;
  readonly staticPods?: StaticPodsPort | undefined;
  /** Absent: the fleet process does not answer. */
  readonly fleet?: FleetPort | undefined;
  readonly notifier: ServiceNotifier;
  /** 0 to 1, as Math.random. Spreads retries. */
  readonly random: () => number;
  readonly setCatalog: (catalog: Catalog, arriving: Arriving) => void;
  /** Resolves when what follows from the last report is written, so that hooks find it. */
  readonly statusSettled?: () => Promise<void>;
  readonly onStatus: (report: StatusReport) => void;
  /** Called after each effect, or after the start of a long one. */
  readonly afterEffect?: ((effect: Effect) => void) | undefined;
}

/** What the parts of the engine use. */
export interface EngineContext extends EngineDependencies {
  readonly recorder: EventRecorder;
  readonly jobs: Jobs;
  /** Requests a round. Pulls that would start without one wait for it. */
  readonly wantRound: () => void;
  /** Records progress for the watchdog. */
  readonly alive: () => void;
}

/** What a round has observed and decided. */
export interface Decided extends Snapshot {
  readonly conditions: Conditions;
  /** Layers to keep on the node's own disk. Undefined while the daemon only keeps. */
  readonly plan: KeepPlan | undefined;
  /** Nothing is pulled or activated, and nothing starts. */
  readonly isIdle: boolean;
}

export type Conditions = ReadonlyMap<BundleId, readonly Condition[]>;

/** A part of the engine that follows its rounds. */
export interface Part {
  /** Called with each observation, before anything is concluded from it. */
  observe?(observed: Observed): void;
  /**
   * Called in each round, when all records are on the disk and before the effects. A failure is
   * logged once, and retried in the next round. Only an abort throws.
   */
  reconcile?(decided: Decided, signal: AbortSignal): void | Promise<void>;
  /** Called at the end of the last round, while the jobs end. */
  stop?(): void | Promise<void>;
}
