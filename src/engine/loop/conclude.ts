import { assess } from '../../domain/assess/assess.ts';
import { tagsInWork } from '../../domain/decide/activation.ts';
import { type Catalog, catalogOf } from '../../domain/decide/catalog.ts';
import type { BundleId } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import { lastCarriersIn } from '../../domain/state/last-carrier.ts';
import type { Memory, RunningTask } from '../../domain/state/memory.ts';
import type { Observed } from '../../domain/state/state.ts';
import { notePinsHeld, unenforcedPins } from '../effects/pin-effects.ts';
import { followTags } from '../effects/tag-effects.ts';
import type { Loop } from './loop.ts';

/** What is remembered before a look; the rest of the memory is taken after it. */
type Remembered = Omit<Memory, 'failures' | 'isLooking' | 'keeping' | 'copyingBytes'>;

/**
 * What is remembered before the node is looked at. A task that ends during the look still counts as
 * running: the look may have come too early to see what it did.
 */
export function remembered(loop: Loop, diskTrouble: Fault | undefined): Remembered {
  const { deps, tasks, effects, state } = loop;
  const { snapshot } = state;
  return {
    running: tasks.running(),
    pinsRequested: effects.pinRequests.last,
    pinLedger: loop.pinKeeper.ledger(),
    floors: loop.floorKeeper.floors(),
    stateProblems: deps.stateProblems ?? [],
    unenforcedPins: unenforcedPins(effects.pinRequests),
    tagsGiven: effects.tags.given,
    obstacle: diskTrouble ?? state.obstacle ?? loop.mediaJobs.obstacle(),
    exhaustedBundles: exhaustedIn(snapshot),
    lastCarriers: lastCarriersIn(snapshot?.observed.media ?? [], snapshot?.memory.lastCarriers ?? new Map()),
  };
}

/**
 * Assesses what was seen. What the look has made obsolete is forgotten first.
 *
 * INVARIANT: nothing is awaited here, so that what is being kept is at least as new as the media
 * that were seen to be busy.
 */
export function conclude(loop: Loop, observed: Observed, before: Remembered): Snapshot {
  const { deps, failures, layerKeeper, effects, state } = loop;
  if (hasNewMedium(state.snapshot, observed)) failures.forgetAll();
  state.areMediaKnown ||=
    deps.media.isLookedAt() && observed.media.every(({ state: { kind } }) => kind !== 'attached' && kind !== 'mounted');
  const memory: Memory = {
    ...before,
    keeping: new Map(effects.keeping),
    copyingBytes: layerKeeper.copyingBytes(),
    failures: failures.list(),
    isLooking: !state.areMediaKnown,
  };
  const snapshot = { observed, memory, assessment: assess(observed, memory, deps.store.load(), deps.policy) };
  for (const task of listedAmong(snapshot)) failures.succeeded(task);
  if (observed.runtime.kind === 'reachable') followRuntime(loop, snapshot);
  return snapshot;
}

/** What the runtime shows changes what is remembered of pins, tags and transfers. */
function followRuntime({ deps, effects, state }: Loop, { assessment }: Snapshot): void {
  if (assessment.bundles.every((entry) => entry.unpinnedImages.length === 0)) notePinsHeld(effects.pinRequests);
  followTags(effects.tags, assessment);
  // What was sent of a layer that the runtime has lost since says nothing about the next preload.
  for (const digest of state.presentLayers) if (!assessment.presentLayers.has(digest)) deps.meter.forget(digest);
  state.presentLayers = assessment.presentLayers;
}

/**
 * The catalog of the registry. It changes only with the bundles, their phases and the tags in work,
 * and a large one costs more than all else in a round.
 */
export function catalogFor({ state }: Loop, { memory, assessment }: Snapshot): Catalog {
  const tags = tagsInWork(memory, assessment).flatMap(({ tag, reference }) => [tag, reference]);
  const from = [...tags, ...assessment.bundles.flatMap(({ bundle, phase }) => [bundle, phase])];
  const { offered } = state;
  if (offered?.from.length === from.length && from.every((one, i) => one === offered.from[i])) return offered.catalog;
  const catalog = catalogOf(memory, assessment);
  state.offered = { from, catalog };
  return catalog;
}

function exhaustedIn(snapshot: Snapshot | undefined): readonly BundleId[] {
  const exhausted = snapshot?.assessment.bundles.filter(({ reason }) => reason?.code === 'bundle/blob-missing') ?? [];
  return exhausted.map(({ bundle }) => bundle.bundleId);
}

function hasNewMedium(before: Snapshot | undefined, after: Observed): boolean {
  const known = new Set((before?.observed.media ?? []).map((medium) => medium.state));
  return after.media.some((medium) => medium.state.kind === 'read' && !known.has(medium.state));
}

/** Pulls that failed, whose image is there all the same. */
function listedAmong({ observed: { runtime }, memory: { failures } }: Snapshot): readonly RunningTask[] {
  if (failures.length === 0 || runtime.kind !== 'reachable') return [];
  const listed = new Set(runtime.images.flatMap((image) => image.repoDigests));
  return failures.flatMap(({ task }) => (task.kind === 'pull' && listed.has(task.reference) ? [task] : []));
}
