import type { Digest } from '../../domain/model/digest.ts';
import type { ImageUses, RuntimeContainer, RuntimeObservation } from '../../domain/model/image.ts';
import type { Medium } from '../../domain/model/medium.ts';
import { keptBundles } from '../../domain/release/recorded-phase.ts';
import type { ContainersSeen } from '../../domain/release/running-releases.ts';
import type { Observed } from '../../domain/state/state.ts';
import { reasonOf } from '../../platform/app-error.ts';
import { withDeadline } from '../../platform/async/abort.ts';
import type { LayerInventory } from '../../ports/blobs.ts';
import type { ContainersPort, RuntimePort } from '../../ports/runtime.ts';
import type { EngineDependencies } from '../context.ts';
import type { MediaJobs } from '../tasks/jobs.ts';

/** Who does not answer within the deadline is unreachable, and a clock is not synchronised then. */
const RUNTIME = { who: 'the container runtime', deadlineMs: 15_000 };
const CLOCK_SERVICE = { who: 'the clock service', deadlineMs: 2_000 };

/** Parts that can't be observed are reported as `unreachable`. Only an abort throws. */
export async function observe(
  deps: EngineDependencies,
  mediaJobs: MediaJobs,
  imageUsesReader: ImageUsesReader,
  needsContainers: (runtime: RuntimeObservation, imageUses: ImageUses | undefined) => boolean,
  signal: AbortSignal,
): Promise<Observed> {
  const [runtime, clockSynchronised, localBlobs, layerParts] = await Promise.all([
    observeRuntime(deps.runtime, signal),
    answerOf(
      CLOCK_SERVICE,
      signal,
      (inner) => deps.node.clockSynchronised(inner),
      () => false,
    ),
    observeLocalBlobs(deps, signal),
    observeParts(deps.layers, signal),
    deps.media.refresh(signal),
  ]);
  const imagesPath = runtime.kind === 'reachable' ? runtime.filesystem?.path : undefined;
  const layersBesideImages = imagesPath !== undefined && (await deps.layers.isBeside(imagesPath, signal));
  const imageUses = runtime.kind === 'reachable' ? await imageUsesReader.read(signal) : undefined;
  const isNeeded = needsContainers(runtime, imageUses);
  const containers = isNeeded ? await observeContainers(deps.containers, signal) : undefined;
  return {
    now: deps.clock.now(),
    clockSynchronised,
    facts: deps.node.facts(),
    arch: deps.node.arch,
    trustRevision: deps.trust.revision(),
    revocations: deps.trust.revocations(),
    roles: deps.trust.roles(),
    trust: deps.trust.inForce(),
    media: mediaOf(deps, mediaJobs),
    localBlobs,
    layerParts,
    layersBesideImages,
    runtime,
    containers,
    imageUses,
    fleet: deps.fleet?.view(),
    isFleetSilent: deps.fleet?.isSilent(),
    boot: deps.node.boot(),
  };
}

function mediaOf({ media }: EngineDependencies, mediaJobs: MediaJobs): readonly Medium[] {
  return media.list().map((medium) => (mediaJobs.isBusy(medium.mediumId) ? { ...medium, isBusy: true } : medium));
}

export async function readContainers(
  { runtime, containers }: EngineDependencies,
  signal: AbortSignal,
): Promise<ContainersSeen | undefined> {
  const [seen, all] = await Promise.all([observeRuntime(runtime, signal), observeContainers(containers, signal)]);
  return seen.kind !== 'reachable' || all === undefined ? undefined : { images: seen.images, containers: all };
}

function observeRuntime(runtime: RuntimePort, signal: AbortSignal): Promise<RuntimeObservation> {
  const unreachable = (error: unknown) => ({ kind: 'unreachable', reason: reasonOf(error) }) as const;
  return answerOf(RUNTIME, signal, (inner) => runtime.observe(inner), unreachable);
}

/** Undefined means that they are not known: decisions that depend on containers then wait. */
function observeContainers(
  port: ContainersPort,
  signal: AbortSignal,
): Promise<readonly RuntimeContainer[] | undefined> {
  return answerOf(
    RUNTIME,
    signal,
    (inner) => port.containers(inner),
    () => undefined,
  );
}

/** A local store that can't be read counts as empty, because the media may have its blobs. */
async function observeLocalBlobs(
  { documents, layers }: EngineDependencies,
  signal: AbortSignal,
): Promise<ReadonlySet<Digest>> {
  const lists = await Promise.allSettled([documents.list(signal), layers.list(signal)]);
  signal.throwIfAborted();
  return new Set(lists.flatMap((list) => (list.status === 'fulfilled' ? [...list.value] : [])));
}

async function observeParts(layers: LayerInventory, signal: AbortSignal): Promise<ReadonlyMap<Digest, number>> {
  try {
    return await layers.parts(signal);
  } catch {
    signal.throwIfAborted();
    return new Map();
  }
}

/**
 * Asks within a deadline. Throws only for an abort: any other error becomes the answer `without`.
 */
async function answerOf<T, Without>(
  { who, deadlineMs }: { readonly who: string; readonly deadlineMs: number },
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  without: (error: unknown) => Without,
): Promise<T | Without> {
  try {
    return await withDeadline(who, deadlineMs, signal, work);
  } catch (error) {
    signal.throwIfAborted();
    return without(error);
  }
}

/** How long an answer counts. Nothing urgent depends on it. */
const HOLDS_MS = 60_000;

const NO_STATIC_PODS: ImageUses = { uses: [], faults: [], isComplete: true };

/** Reads at most once a minute, with an answer of the runtime, unless it is told to forget. */
export class ImageUsesReader {
  private last: { readonly at: number; readonly uses: ImageUses } | undefined;
  private timesForgotten = 0;

  constructor(private readonly context: EngineDependencies) {}

  /** The next look reads again, also when a read is under way. */
  forget(): void {
    this.last = undefined;
    this.timesForgotten += 1;
  }

  /** Returns undefined while no release is kept. Throws only for an abort. */
  async read(signal: AbortSignal): Promise<ImageUses | undefined> {
    const { clock, store, containers, staticPods } = this.context;
    if (keptBundles(store.load().bundles).length === 0) return undefined;
    const now = clock.monotonic();
    if (this.last !== undefined && now - this.last.at < HOLDS_MS) return this.last.uses;
    const { timesForgotten } = this;
    const pods = (await staticPods?.images(signal)) ?? NO_STATIC_PODS;
    const running = await answerOf(
      RUNTIME,
      signal,
      (inner) => containers.containerImages(inner),
      () => undefined,
    );
    const uses = {
      uses: [...pods.uses, ...(running ?? [])],
      faults: pods.faults,
      isComplete: pods.isComplete && running !== undefined,
    };
    if (running !== undefined && timesForgotten === this.timesForgotten) this.last = { at: now, uses };
    return uses;
  }
}
