import { assess } from '../../domain/assess/assess.ts';
import { tagsInWork } from '../../domain/assess/assess-order.ts';
import { type Catalog, catalogOf, workOf } from '../../domain/decide/catalog.ts';
import type { ConditionStatus } from '../../domain/model/condition.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import { usableImages } from '../../domain/model/image.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { HookMemory } from '../../domain/state/hook.ts';
import { lastCarriersIn, type Memory, mediaFaultsIn, type RunningTask } from '../../domain/state/memory.ts';
import type { Observed } from '../../domain/state/state.ts';
import { notePinsHeld, unenforcedPins } from '../effects/image-effects.ts';
import type { Conditions } from '../keepers/state-keepers.ts';
import type { Loop } from './loop.ts';

/** What is read before an observation. The rest is read after it. */
export type Remembered = Omit<Memory, 'failures' | 'areMediaUnread' | 'keeping' | 'copyingBytes' | 'copyFaults'>;

/** What an effect that fails may last before a person is called: two rounds. */
const BRIEF_MS = 10_000;

/** A task that ends meanwhile still counts: its result may not have been observed. */
export function remembered(loop: Loop, diskTrouble: Fault | undefined): Remembered {
  const { context, tasks, effects, state } = loop;
  const { snapshot, obstacleAt } = state;
  const isBrief = obstacleAt !== undefined && context.clock.monotonic() - obstacleAt < BRIEF_MS;
  return {
    pullChecks: loop.pullChecker.checks(),
    contentChecks: loop.contentChecker.checks(),
    storage: loop.storageKeeper.syncs(),
    documentChecks: loop.documentKeeper.checks(),
    running: tasks.running(),
    hooks: loop.hookKeeper.memory(degradedIn(state.conditions)),
    pinsRequested: effects.context.pinRequests.last,
    pinLedger: loop.pinKeeper.ledger(),
    floors: loop.floorKeeper.floors(),
    stateProblems: context.stateProblems ?? [],
    unenforcedPins: unenforcedPins(effects.context.pinRequests),
    tagsGiven: effects.tags.given,
    obstacle: diskTrouble ?? state.obstacle ?? loop.mediaJobs.obstacle(),
    isObstacleBrief: diskTrouble === undefined && isBrief,
    exhaustedBundles: exhaustedIn(snapshot),
    lastCarriers: carriersIn(snapshot),
    arrivals: snapshot?.assessment.arrivals ?? new Map(),
    mediaFaults: mediaFaultsIn(snapshot?.observed.media ?? [], snapshot?.memory.mediaFaults ?? new Map()),
  };
}

function carriersIn(snapshot: Snapshot | undefined): Memory['lastCarriers'] {
  if (snapshot === undefined) return new Map();
  const { observed, memory } = snapshot;
  return lastCarriersIn(observed.media, memory.lastCarriers, observed.boot.uptimeMs);
}

export function degradedIn(conditions: Conditions): HookMemory['degraded'] {
  const statuses = new Map<BundleId, ConditionStatus>();
  for (const [bundleId, all] of conditions) {
    const status = all.find(({ type }) => type === 'Degraded')?.status;
    if (status !== undefined) statuses.set(bundleId, status);
  }
  return statuses;
}

/** INVARIANT: nothing is awaited. `keeping` must be at least as new as the list of busy media. */
export function conclude(loop: Loop, observed: Observed, before: Remembered): Snapshot {
  const { context, failures, layerKeeper, effects, state } = loop;
  if (hasNewMedium(state.snapshot, observed)) failures.forgetAll();
  state.areMediaKnown ||=
    context.media.isListed() &&
    observed.media.every(({ state: { kind } }) => kind !== 'attached' && kind !== 'mounted');
  const memory: Memory = {
    ...before,
    keeping: new Map(effects.context.keeping),
    copyingBytes: layerKeeper.copyingBytes(),
    copyFaults: layerKeeper.copyFaults(),
    failures: failures.list(),
    areMediaUnread: !state.areMediaKnown,
  };
  const snapshot = { observed, memory, assessment: assess(observed, memory, context.store.load(), context.policy) };
  for (const task of listedAmong(snapshot)) failures.succeeded(task);
  if (observed.runtime.kind === 'reachable') followRuntime(loop, snapshot);
  return snapshot;
}

function followRuntime({ context, effects, state }: Loop, { assessment, memory }: Snapshot): void {
  if (assessment.bundles.every((entry) => entry.unpinnedImages.length === 0)) notePinsHeld(effects.context.pinRequests);
  effects.tags.follow(assessment, memory.running);
  // Bytes sent for a layer that the runtime has lost since must not count in the next preload.
  for (const digest of state.presentLayers) if (!assessment.presentLayers.has(digest)) context.meter.forget(digest);
  state.presentLayers = assessment.presentLayers;
}

/** Built again only after a change: a large catalog costs more than the rest of a round. */
export function catalogFor({ context, state }: Loop, { memory, assessment }: Snapshot): Catalog {
  const tags = tagsInWork(memory, assessment).flatMap(({ tag, reference }) => [tag, reference]);
  const contested = assessment.tags.contested.map(({ tag }) => `contested ${tag}`);
  const isInWork = workOf(memory, assessment);
  const bundles = assessment.bundles.flatMap((entry) => [
    entry.bundle,
    entry.phase,
    entry.withdrawn !== undefined,
    isInWork(entry),
  ]);
  const from = [...tags, ...contested, ...bundles];
  const { offered } = state;
  if (offered?.from.length === from.length && from.every((one, i) => one === offered.from[i])) return offered.catalog;
  const catalog = catalogOf(memory, assessment, context.policy);
  state.offered = { from, catalog };
  return catalog;
}

function exhaustedIn(snapshot: Snapshot | undefined): readonly BundleId[] {
  const exhausted = snapshot?.assessment.bundles.filter(({ reason }) => reason?.code === 'bundle/blob-missing') ?? [];
  return exhausted.map(({ bundle }) => bundle.bundleId);
}

function hasNewMedium(before: Snapshot | undefined, after: Observed): boolean {
  const known = new Set((before?.observed.media ?? []).map((medium) => medium.state));
  return after.media.some(({ state }) => state.kind === 'read' && state.isStale !== true && !known.has(state));
}

function listedAmong({ observed: { runtime }, memory: { failures } }: Snapshot): readonly RunningTask[] {
  if (failures.length === 0 || runtime.kind !== 'reachable') return [];
  const listed = new Set(usableImages(runtime.images).flatMap((image) => image.repoDigests));
  return failures.flatMap(({ task }) => (task.kind === 'pull' && listed.has(task.reference) ? [task] : []));
}
