import { type Assessment, allBundles } from '../../domain/assess/assess.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { Kept, PinsRequested } from '../../domain/state/memory.ts';
import type { StoredBundle } from '../../domain/state/state.ts';
import type { StateStore } from '../../ports/state.ts';
import type { EngineContext } from '../context.ts';
import type { ContentChecker } from '../keepers/content-checker.ts';
import type { HookKeeper } from '../keepers/hook-keeper.ts';
import type { PullChecker } from '../keepers/pull-checker.ts';
import type { FloorKeeper } from '../keepers/state-keepers.ts';
import type { StorageKeeper } from '../keepers/storage-keeper.ts';
import type { MediaJobs } from '../tasks/jobs.ts';
import type { MirrorGate } from '../tasks/mirror-gate.ts';
import type { StallWatch } from '../tasks/stall-watch.ts';
import type { FailureLedger, Tasks } from '../tasks/tasks.ts';

export interface PinRequests {
  last: PinsRequested | undefined;
  /** Pins that the runtime does not enforce. `true` after the one new pull for that reason. */
  readonly unenforced: Map<string, boolean>;
}

export interface EffectContext {
  readonly ports: EngineContext;
  readonly tasks: Tasks;
  readonly mediaJobs: MediaJobs;
  readonly failures: FailureLedger;
  readonly floorKeeper: FloorKeeper;
  readonly hookKeeper: HookKeeper;
  readonly contentChecker: ContentChecker;
  readonly pullChecker: PullChecker;
  readonly storageKeeper: StorageKeeper;
  readonly stalls: StallWatch;
  readonly mirrorGate: MirrorGate;
  /** How far the documents of bundles that are to be adopted are kept. */
  readonly keeping: Map<BundleId, Kept>;
  readonly pinRequests: PinRequests;
}

export type EffectOf<Kind extends Effect['kind']> = Extract<Effect, { readonly kind: Kind }>;

export function storedBundle(store: StateStore, bundleId: BundleId): StoredBundle | undefined {
  return store.load().bundles.find((bundle) => bundle.bundleId === bundleId);
}

/** Commands and activations set these, beside the rounds. */
const STAMPS = ['activationRequestedAt', 'activatedAt', 'rolledBackAt', 'retiredAt'] as const;

/** INVARIANT: what was decided before one of {@link STAMPS} changed is not done. */
export function decidedBundle(store: StateStore, bundleId: BundleId, assessment: Assessment): StoredBundle | undefined {
  const now = storedBundle(store, bundleId);
  const then = allBundles(assessment).find((bundle) => bundle.bundleId === bundleId);
  return STAMPS.every((stamp) => now?.[stamp] === then?.[stamp]) ? now : undefined;
}
