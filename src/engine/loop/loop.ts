import type { Catalog } from '../../domain/decide/catalog.ts';
import type { Digest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { StatusReport } from '../../domain/report/report.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { LayerStore } from '../../ports/blobs.ts';
import type { NodePort, ServiceNotifier } from '../../ports/node.ts';
import type { ReleaseFiles } from '../../ports/release-files.ts';
import type { FloorStore, PinLedgerStore } from '../../ports/state.ts';
import type { TrustPort } from '../../ports/trust.ts';
import type { LayerKeeper } from '../blobs/layer-keeper.ts';
import type { RunningReleases } from '../commands/running-releases.ts';
import type { EffectDependencies, Effects } from '../effects/effects.ts';
import type { ConditionKeeper, Conditions } from '../keepers/condition-keeper.ts';
import type { FloorKeeper } from '../keepers/floor-keeper.ts';
import type { PinKeeper } from '../keepers/pin-keeper.ts';
import type { ReleaseKeeper } from '../keepers/release-keeper.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { Refusals } from '../reporting/refusals.ts';
import type { StatusPublisher } from '../reporting/status-publisher.ts';
import type { FailureLedger } from '../tasks/failures.ts';
import type { MediaJobs } from '../tasks/media-jobs.ts';
import type { RunningQueue } from '../tasks/pull-queue.ts';
import type { Tasks } from '../tasks/tasks.ts';
import type { Wake } from '../tasks/wake.ts';
import type { Pace } from './pace.ts';

/** What the engine is wired to. */
export interface EngineDependencies
  extends Omit<EffectDependencies, 'tasks' | 'mediaJobs' | 'failures' | 'recorder' | 'alive' | 'floorKeeper'> {
  /** Where layers are kept. */
  readonly layers: LayerStore;
  readonly pinLedger: PinLedgerStore;
  readonly floors: FloorStore;
  /** What was found wrong with our own state at the start. Default nothing. */
  readonly stateProblems?: readonly Fault[];
  readonly trust: TrustPort;
  readonly node: NodePort;
  readonly releaseFiles: ReleaseFiles;
  readonly notifier: ServiceNotifier;
  /** 0 to 1, as Math.random: spreads tries. */
  readonly random: () => number;
  /** Tells the registry what it may serve. */
  readonly setCatalog: (catalog: Catalog, withheld: ReadonlySet<Digest>) => void;
  /** Called with every new report. */
  readonly onStatus: (report: StatusReport) => void;
  /** Called when an effect was done; a long one has been started then. */
  readonly afterEffect?: ((effect: Effect) => void) | undefined;
}

/** The parts of the engine, and what one round leaves to the next. */
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
  readonly pinKeeper: PinKeeper;
  readonly floorKeeper: FloorKeeper;
  readonly releaseKeeper: ReleaseKeeper;
  readonly conditionKeeper: ConditionKeeper;
  readonly running: RunningReleases;
  readonly recorder: EventRecorder;
  readonly refusals: Refusals;
  readonly status: StatusPublisher;
  readonly state: LoopState;
}

/** What changes from round to round. Times are monotonic milliseconds. */
export interface LoopState {
  /** What the last round saw and concluded; undefined before the first. */
  snapshot: Snapshot | undefined;
  conditions: Conditions;
  /** Why the last round could not do all that it wanted. */
  obstacle: Fault | undefined;
  /** When the last round began, and how long it took to look and to decide. */
  lastRound: { readonly at: number; readonly lookMs: number };
  /** When containers were seen last. */
  lastLookAt: number;
  /** When it was last seen that the engine goes on, for the watchdog. */
  lastSignAt: number;
  /** Aborts when the engine is to stop. */
  stopping: AbortSignal;
  /** The catalog that the registry has, and what it was made from. */
  offered: { readonly from: readonly unknown[]; readonly catalog: Catalog } | undefined;
  presentLayers: ReadonlySet<Digest>;
  /** All media that were plugged in at the start have been read. */
  areMediaKnown: boolean;
  /**
   * References that were pulled since the last round looked at the runtime, so that it did not see
   * them.
   */
  readonly landed: Set<string>;
}

/**
 * Asks for a round now. Pulls that would follow without a round wait for it: what asks may be a
 * reason against them.
 */
export function kick({ queue, wake }: Pick<Loop, 'queue' | 'wake'>): void {
  queue.stop();
  wake.kick();
}

/** The engine goes on, for the watchdog. */
export function alive({ deps, state }: Pick<Loop, 'deps' | 'state'>): void {
  state.lastSignAt = deps.clock.monotonic();
}
