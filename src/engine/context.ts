import type { Arriving, Catalog } from '../domain/decide/catalog.ts';
import type { Fault } from '../domain/model/reason.ts';
import type { StatusReport } from '../domain/report/status-schema.ts';
import type { Policy } from '../domain/settings/settings.ts';
import type { Effect } from '../domain/state/effect.ts';
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
  readonly storedDocuments?: Pick<BlobSource, 'sizeOf' | 'read'> | undefined;
  /** Layers on the node's own disk. */
  readonly layers: LayerInventory & LayerCopies & BlobSource;
  readonly signedBundles: SignedBundles;
  readonly meter: TransferMeter;
  readonly probes: MirrorProbes;
  /** How long a pull may make no progress, in milliseconds (`preload.stall`). */
  readonly stallMs: number;
  readonly bootMark?: BootMark;
  /** Absent: nothing outlives the run, as in a rehearsal. */
  readonly disk?: StoragePort;
  readonly stateProblems?: readonly Fault[];
  /** The database is new after a loss, or an earlier one. */
  readonly isStateLost?: boolean;
  /** Called after each round that recorded all it had to. */
  readonly afterRound?: () => void;
  readonly releaseFiles: ReleaseFiles;
  readonly hookRunner: HookRunner;
  readonly hookStore: HookStore;
  readonly staticPods?: StaticPodsPort;
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

export interface EngineContext extends EngineDependencies {
  readonly recorder: EventRecorder;
  /** Requests a round. Pulls that would start without one wait for it. */
  readonly wantRound: () => void;
  /** Records progress for the watchdog. */
  readonly alive: () => void;
}
