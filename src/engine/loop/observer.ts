import { type Assessment, assess } from '../../domain/assess/assess.ts';
import { tagsInWork } from '../../domain/assess/assess-order.ts';
import { arrivingImages, type Catalog, catalogOf, workOf } from '../../domain/decide/catalog.ts';
import { NO_SIGHTINGS, type Sightings, sightingsAfter } from '../../domain/fleet/sightings.ts';
import type { BundleId, Digest } from '../../domain/model/digest.ts';
import { type ImageUses, type RuntimeImage, type RuntimeObservation, usableImages } from '../../domain/model/image.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { unknownComponents } from '../../domain/preload/space.ts';
import { needsContainers } from '../../domain/release/running-releases.ts';
import { eventsBetween } from '../../domain/report/events/events.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import { unknownComponentsText } from '../../domain/report/texts/release-text.ts';
import { lastCarriersIn, type Memory, mediaFaultsIn } from '../../domain/state/memory.ts';
import type { Observed, Stored } from '../../domain/state/state.ts';
import type { Conditions } from '../context.ts';
import { notePinsHeld, unenforcedPins } from '../effects/image-effects.ts';
import type { TagTasks } from '../effects/tag-effects.ts';
import { areFloorsForgotten } from '../keepers/state-keepers.ts';
import { Refusals } from '../reporting/events.ts';
import { ImageUsesReader, observe } from './observe.ts';
import type { Parts } from './parts.ts';

/** What is read before an observation. The rest is read after it. */
type Remembered = Omit<Memory, 'failures' | 'areMediaUnread' | 'keeping' | 'copyingBytes' | 'copyFaults'>;

/** What an effect that fails may last before a person is called: two rounds. */
const BRIEF_OBSTACLE_MS = 10_000;

/** How long a runtime may be busy, or start again, before a person is called. */
const BRIEF_AWAY_MS = 60_000;

/** How often times of other nodes are written while a release waits for its turn. */
const NOTE_MS = 60_000;

/**
 * Observes the node, and concludes. It has what one round passes to the next. Times are monotonic
 * milliseconds.
 */
export class Observer {
  /** What the last round observed and concluded. */
  snapshot: Snapshot | undefined;
  conditions: Conditions = new Map();
  readonly imageUses: ImageUsesReader;
  /** References that were pulled after the last observation. */
  readonly landed = new Set<string>();
  private readonly refusals = new Refusals();
  /** Why the first effect of the last round failed, and since when one has. */
  private obstacle: Fault | undefined;
  private obstacleAt: number | undefined;
  private containersAt = Number.NEGATIVE_INFINITY;
  /** Since when the runtime has not been reached. */
  private awayAt: number | undefined;
  private sightings: Sightings;
  /** When they were written to the database. */
  private sightingsNotedAt: number;
  /** The unknown components of `retention.keep_components` that were reported last. */
  private reportedComponents = '';
  private offered: { readonly from: readonly unknown[]; readonly catalog: Catalog } | undefined;
  private presentLayers: ReadonlySet<Digest> = new Set();
  /** All media that were plugged in at the start have been read. */
  private areMediaKnown = false;

  constructor(
    private readonly parts: Parts,
    private readonly tags: TagTasks,
  ) {
    const { ports } = parts;
    this.imageUses = new ImageUsesReader(ports);
    this.sightings = ports.store.load().sightings ?? NO_SIGHTINGS;
    this.sightingsNotedAt = ports.clock.monotonic();
  }

  /** Observes, reports changes, and gives the registry its catalog. */
  async observe(diskTrouble: Fault | undefined, signal: AbortSignal): Promise<Snapshot> {
    const { ports, inOrder, conditionKeeper, mediaJobs } = this.parts;
    const landedBefore = [...this.landed];
    const known = this.remembered(diskTrouble);
    const needs = (runtime: RuntimeObservation, uses: ImageUses | undefined) => this.areContainersNeeded(runtime, uses);
    const seen = await observe(ports, mediaJobs, this.imageUses, needs, signal);
    this.sightings = sightingsAfter(this.sightings, seen.fleet, seen.boot.uptimeMs);
    const observed = { ...seen, runtime: this.withTimeAway(seen.runtime), sightings: this.sightings };
    for (const part of inOrder) part.observe?.(observed);
    const hasContainers = observed.runtime.kind === 'reachable' && observed.containers !== undefined;
    if (hasContainers) this.containersAt = ports.clock.monotonic();
    const before = this.snapshot;
    const snapshot = await this.concludeAll(observed, known, signal);
    this.snapshot = snapshot;
    for (const reference of landedBefore) this.landed.delete(reference);
    this.conditions = conditionKeeper.follow(snapshot);
    ports.setCatalog(this.catalogFor(snapshot), arrivingImages(snapshot.memory, snapshot.assessment));
    this.reportUnknownComponents(snapshot);
    const events = [...eventsBetween(before, snapshot), ...this.refusals.eventsOf(snapshot)];
    for (const event of events) ports.recorder.record(event);
    return snapshot;
  }

  /** Why nothing of the round was done. */
  hindered(snapshot: Snapshot, obstacle: Fault): void {
    this.snapshot = { ...snapshot, memory: { ...snapshot.memory, obstacle } };
  }

  /** @param obstacle why the first effect failed */
  acted(obstacle: Fault | undefined): void {
    this.obstacle = obstacle;
    this.obstacleAt = obstacle && (this.obstacleAt ?? this.parts.ports.clock.monotonic());
  }

  /** Judges other records by what the last round observed. */
  judge(stored: Stored): Assessment | undefined {
    const { snapshot } = this;
    return snapshot && assess(snapshot.observed, snapshot.memory, stored, this.parts.ports.policy);
  }

  /** Writes when other nodes were seen, while a release waits for its turn. */
  noteSightings({ assessment }: Snapshot): void {
    const { clock, store } = this.parts.ports;
    const now = clock.monotonic();
    if (now - this.sightingsNotedAt < NOTE_MS) return;
    if (!assessment.bundles.some(({ rollOut }) => rollOut?.reads !== undefined)) return;
    this.sightingsNotedAt = now;
    store.setSightings(this.sightings);
  }

  /** A task that ends meanwhile still counts: its result may not have been observed. */
  private remembered(diskTrouble: Fault | undefined): Remembered {
    const { parts } = this;
    const { ports, pinRequests } = parts;
    const { snapshot, obstacleAt } = this;
    const isBrief = obstacleAt !== undefined && ports.clock.monotonic() - obstacleAt < BRIEF_OBSTACLE_MS;
    return {
      pullChecks: parts.pullChecker.checks(),
      contentChecks: parts.contentChecker.checks(),
      storage: parts.storageKeeper.syncs(),
      documentChecks: parts.documentKeeper.checks(),
      running: parts.tasks.running(),
      hooks: parts.hookKeeper.memory(this.conditions),
      pinsRequested: pinRequests.last,
      pinLedger: parts.pinKeeper.ledger(),
      floors: parts.floorKeeper.floors(),
      stateProblems: ports.stateProblems ?? [],
      unenforcedPins: unenforcedPins(pinRequests),
      tagsGiven: this.tags.given,
      obstacle: diskTrouble ?? this.obstacle ?? parts.mediaJobs.obstacle(),
      isObstacleBrief: diskTrouble === undefined && isBrief,
      exhaustedBundles: exhaustedIn(snapshot),
      lastCarriers: carriersIn(snapshot),
      arrivals: snapshot?.assessment.arrivals ?? new Map(),
      mediaFaults: mediaFaultsIn(snapshot?.observed.media ?? [], snapshot?.memory.mediaFaults ?? new Map()),
    };
  }

  private areContainersNeeded(runtime: RuntimeObservation, imageUses: ImageUses | undefined): boolean {
    const { store, policy, clock, node } = this.parts.ports;
    const { damaged = [], short = [] } = this.snapshot?.assessment ?? {};
    if (runtime.kind === 'reachable' && damaged.some(({ isPresent }) => isPresent)) return true;
    return needsContainers(store.load(), runtime, policy, {
      isShort: short.length > 0,
      sinceListMs: clock.monotonic() - this.containersAt,
      tagsGiven: this.tags.given,
      observed: { now: clock.now(), boot: node.boot(), imageUses },
    });
  }

  private withTimeAway(runtime: RuntimeObservation): RuntimeObservation {
    const now = this.parts.ports.clock.monotonic();
    this.awayAt = runtime.kind === 'unreachable' ? (this.awayAt ?? now) : undefined;
    const isBrief = this.awayAt !== undefined && now - this.awayAt < BRIEF_AWAY_MS;
    return runtime.kind === 'unreachable' && isBrief ? { ...runtime, isBrief } : runtime;
  }

  /** INVARIANT: the loss of floors is noted first: rebuilt releases give only a lower bound. */
  private async concludeAll(observed: Observed, known: Remembered, signal: AbortSignal): Promise<Snapshot> {
    const { floorKeeper, pinKeeper, rebuildKeeper } = this.parts;
    const snapshot = this.conclude(observed, known);
    if (areFloorsForgotten(snapshot)) await floorKeeper.reconcile(snapshot, signal);
    if (observed.facts.keepsOnly === true) return snapshot;
    const isRebuilt = await rebuildKeeper.reconcile(snapshot, signal);
    if (!isRebuilt) return snapshot;
    return this.conclude(observed, { ...known, floors: floorKeeper.floors(), pinLedger: pinKeeper.ledger() });
  }

  /** INVARIANT: nothing is awaited. `keeping` must be at least as new as the list of busy media. */
  private conclude(observed: Observed, before: Remembered): Snapshot {
    const { ports, failures, layerKeeper, keeping } = this.parts;
    if (hasNewMedium(this.snapshot, observed)) failures.forgetAll();
    this.areMediaKnown ||=
      ports.media.isListed() &&
      observed.media.every(({ state: { kind } }) => kind !== 'attached' && kind !== 'mounted');
    const memory: Memory = {
      ...before,
      keeping: new Map(keeping),
      copyingBytes: layerKeeper.copyingBytes(),
      copyFaults: layerKeeper.copyFaults(),
      failures: failures.list(),
      areMediaUnread: !this.areMediaKnown,
    };
    const snapshot = { observed, memory, assessment: assess(observed, memory, ports.store.load(), ports.policy) };
    // Documents of a bundle that is no longer to be adopted are removed, and must be kept again.
    const awaited = new Set(snapshot.assessment.adoptions.map(({ found }) => found.bundle.bundleId));
    for (const bundleId of keeping.keys()) if (!awaited.has(bundleId)) keeping.delete(bundleId);
    if (observed.runtime.kind === 'reachable') this.followRuntime(snapshot, observed.runtime);
    return snapshot;
  }

  private followRuntime(
    { assessment, memory }: Snapshot,
    { images }: { readonly images: readonly RuntimeImage[] },
  ): void {
    const { ports, failures, pinRequests } = this.parts;
    const listed = new Set(memory.failures.length === 0 ? [] : usableImages(images).flatMap((one) => one.repoDigests));
    for (const { task } of memory.failures) {
      if (task.kind === 'pull' && listed.has(task.reference)) failures.succeeded(task);
    }
    if (assessment.bundles.every((entry) => entry.unpinnedImages.length === 0)) notePinsHeld(pinRequests);
    this.tags.follow(assessment, memory.running);
    // Bytes sent for a layer that the runtime has lost since must not count in the next preload.
    for (const digest of this.presentLayers) if (!assessment.presentLayers.has(digest)) ports.meter.forget(digest);
    this.presentLayers = assessment.presentLayers;
  }

  /** Built again only after a change: a large catalog costs more than the rest of a round. */
  private catalogFor({ memory, assessment }: Snapshot): Catalog {
    const isInWork = workOf(memory, assessment);
    const from = [
      ...tagsInWork(memory, assessment).flatMap(({ tag, reference }) => [tag, reference]),
      ...assessment.tags.contested.map(({ tag }) => `contested ${tag}`),
      ...assessment.bundles.flatMap((entry) => [
        entry.bundle,
        entry.phase,
        entry.withdrawn !== undefined,
        isInWork(entry),
      ]),
    ];
    const { offered } = this;
    if (offered?.from.length === from.length && from.every((one, i) => one === offered.from[i])) return offered.catalog;
    const catalog = catalogOf(memory, assessment, this.parts.ports.policy);
    this.offered = { from, catalog };
    return catalog;
  }

  /** Once for each set of names, since a later release may have them. */
  private reportUnknownComponents({ assessment }: Snapshot): void {
    const { policy, log } = this.parts.ports;
    const kept = assessment.bundles.filter(({ phase }) => phase !== 'retired').map(({ bundle }) => bundle);
    const names = unknownComponents(kept, policy.retention);
    const logged = names.join(' ');
    if (names.length > 0 && logged !== this.reportedComponents) log.warn({}, unknownComponentsText(names));
    this.reportedComponents = logged;
  }
}

function carriersIn(snapshot: Snapshot | undefined): Memory['lastCarriers'] {
  if (snapshot === undefined) return new Map();
  const { observed, memory } = snapshot;
  return lastCarriersIn(observed.media, memory.lastCarriers, observed.boot.uptimeMs);
}

function exhaustedIn(snapshot: Snapshot | undefined): readonly BundleId[] {
  const exhausted = snapshot?.assessment.bundles.filter(({ reason }) => reason?.code === 'bundle/blob-missing') ?? [];
  return exhausted.map(({ bundle }) => bundle.bundleId);
}

function hasNewMedium(before: Snapshot | undefined, after: Observed): boolean {
  const known = new Set((before?.observed.media ?? []).map((medium) => medium.state));
  return after.media.some(({ state }) => state.kind === 'read' && state.isStale !== true && !known.has(state));
}
