import type { ImageUses } from '../../domain/model/image.ts';
import { keptBundles } from '../../domain/release/recorded-phase.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { Clock } from '../../platform/clock.ts';
import type { ContainersPort } from '../../ports/runtime.ts';
import type { StateReader } from '../../ports/state.ts';
import type { StaticPodsPort } from '../../ports/static-pods.ts';

/** The adapters of {@link createImageUsesLook}. */
export interface ImageUsesDependencies {
  readonly clock: Clock;
  readonly store: StateReader;
  readonly containers: Pick<ContainersPort, 'imagesAskedFor'>;
  /** Default: there are no static pods. */
  readonly staticPods?: StaticPodsPort;
}

/** Looks at the images that static pods and containers ask for. Throws only for an abort. */
export type ImageUsesLook = (signal: AbortSignal) => Promise<ImageUses | undefined>;

/** A look holds for so long. Nothing urgent depends on it. */
const HOLDS_MS = 60_000;
/** How long the runtime may take. */
const DEADLINE_MS = 15_000;

const NO_STATIC_PODS: ImageUses = { uses: [], faults: [], isComplete: true };

/**
 * A look at most once a minute, and none while no release is kept: undefined then. One at which the
 * runtime did not answer is repeated in the next round.
 */
export function createImageUsesLook({ clock, store, containers, staticPods }: ImageUsesDependencies): ImageUsesLook {
  let last: { readonly at: number; readonly uses: ImageUses } | undefined;
  return async (signal) => {
    if (keptBundles(store.load().bundles).length === 0) return undefined;
    const now = clock.monotonic();
    if (last !== undefined && now - last.at < HOLDS_MS) return last.uses;
    const pods = (await staticPods?.images(signal)) ?? NO_STATIC_PODS;
    const running = await imagesOfContainers(containers, signal);
    const uses = {
      uses: [...pods.uses, ...(running ?? [])],
      faults: pods.faults,
      isComplete: pods.isComplete && running !== undefined,
    };
    if (running !== undefined) last = { at: now, uses };
    return uses;
  };
}

async function imagesOfContainers(containers: ImageUsesDependencies['containers'], signal: AbortSignal) {
  try {
    return await withDeadline('the container runtime', DEADLINE_MS, signal, (inner) =>
      containers.imagesAskedFor(inner),
    );
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
