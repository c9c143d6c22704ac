import type { Assessment } from '../../domain/assess/assess.ts';
import { bundleName } from '../../domain/model/bundle.ts';
import { type BundleId, hexOf } from '../../domain/model/digest.ts';
import { bundlesCalled } from '../../domain/release/recorded-phase.ts';
import { type ContainersSeen, runningReleases } from '../../domain/release/running-releases.ts';
import type { Observed, Stored, StoredBundle } from '../../domain/state/state.ts';
import { AppError } from '../../platform/app-error.ts';
import { defined } from '../../platform/defined.ts';
import type { EventRow, StateStore } from '../../ports/state.ts';
import type { EngineContext, Part } from '../context.ts';
import type { HookKeeper } from '../keepers/hook-keeper.ts';
import type { PinKeeper } from '../keepers/state-keepers.ts';
import type { EventRecorder } from '../reporting/event-recorder.ts';
import type { Tasks } from '../tasks/tasks.ts';

export interface Running {
  readonly releases: ReadonlySet<BundleId>;
  /** False when the runtime does not answer: `releases` is the last known answer. */
  readonly isSeenNow: boolean;
}

export const NOTHING_SEEN: Running = { releases: new Set(), isSeenNow: false };

export class RunningReleases implements Part {
  private last: ContainersSeen | undefined;

  /** @param look undefined when the runtime does not answer */
  constructor(
    private readonly store: StateStore,
    private readonly look: (signal: AbortSignal) => Promise<ContainersSeen | undefined>,
  ) {}

  observe({ runtime, containers }: Observed): void {
    if (runtime.kind === 'reachable' && containers !== undefined) this.last = { images: runtime.images, containers };
  }

  /** Throws only for an abort. */
  async read(signal: AbortSignal): Promise<Running> {
    const now = await this.look(signal);
    this.last = now ?? this.last;
    if (this.last === undefined) return NOTHING_SEEN;
    return { releases: runningReleases(this.store.load().bundles, this.last), isSeenNow: now !== undefined };
  }
}

export interface CommandContext {
  readonly ports: EngineContext;
  /** Records events with their author. */
  readonly recorder: EventRecorder;
  /** Who gave the command, for the history: `uid 1000: activate`. */
  readonly by?: string | undefined;
  readonly tasks: Tasks;
  readonly pinKeeper: PinKeeper;
  readonly hookKeeper: HookKeeper;
  readonly running: RunningReleases;
  /** What the last round concluded. */
  readonly assessment: () => Assessment | undefined;
  /** Judges other records by what the last round observed. */
  readonly judge: (stored: Stored) => Assessment | undefined;
}

export function authorOf({ by }: CommandContext): Pick<EventRow, 'by'> {
  return defined({ by });
}

export function refuse(code: string, message: string): AppError {
  return new AppError({ code, message, disposition: 'reject' });
}

/**
 * By `name@version` or digest. @throws AppError `engine/no-bundle`, `engine/ambiguous` (`reject`)
 */
export function findBundle(bundles: readonly StoredBundle[], name: string): StoredBundle {
  const candidates = candidatesFor(bundles, name);
  const [found] = candidates;
  if (candidates.length > 1) {
    throw ambiguousName(
      candidates.map(({ bundleId, payload }) => ({ bundleId, sequence: payload.sequence })),
      name,
    );
  }
  if (found !== undefined) return found;
  const known = bundles.map((bundle) => bundleName(bundle.payload)).join(', ');
  throw refuse(
    'engine/no-bundle',
    `no bundle ${name} is known here; ${known === '' ? 'none is, plug in a stick' : `known are ${known}`}`,
  );
}

/** Returns undefined when none, or more than one, has the name. */
export function bundleCalled(bundles: readonly StoredBundle[], name: string): StoredBundle | undefined {
  const [found, ...others] = candidatesFor(bundles, name);
  return others.length === 0 ? found : undefined;
}

/** Finds bundles by at least 12 of their first digits, as STATUS shows them. */
export function bundlesByDigest<B extends { readonly bundleId: BundleId }>(bundles: readonly B[], name: string) {
  const [, digits] = /^sha256:([0-9a-f]{12,64})…?$/.exec(name) ?? [];
  return digits === undefined ? [] : bundles.filter(({ bundleId }) => hexOf(bundleId).startsWith(digits));
}

/** The bundle with this digest, else those of this name that are not retired, else its last one. */
function candidatesFor(bundles: readonly StoredBundle[], name: string): readonly StoredBundle[] {
  const byDigest = bundlesByDigest(bundles, name);
  if (byDigest.length > 0) return byDigest;
  return bundlesCalled(bundles, name);
}

/** @param sequence undefined when it is not known */
export function ambiguousName(
  bundles: readonly { readonly bundleId: string; readonly sequence?: number | undefined }[],
  name: string,
): AppError {
  const ids = bundles
    .map(({ bundleId, sequence }) => (sequence === undefined ? bundleId : `${bundleId} (sequence ${sequence})`))
    .join(' or ');
  return refuse(
    'engine/ambiguous',
    `${bundles.length} bundles here are called ${name}: name the one you mean by its digest, ${ids}`,
  );
}
