import { pausesAfter } from '../../domain/activation/fleet-gate.ts';
import type { Assessment } from '../../domain/assess/assess.ts';
import { arrivingImages } from '../../domain/decide/catalog.ts';
import { type Decision, decide } from '../../domain/decide/decide.ts';
import { type KeepPlan, keepPlan } from '../../domain/decide/pull-plan.ts';
import { sightingsAfter } from '../../domain/fleet/sightings.ts';
import type { ImageUses, RuntimeObservation } from '../../domain/model/image.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { unknownComponents } from '../../domain/preload/space.ts';
import { needsContainers } from '../../domain/release/running-releases.ts';
import { eventsBetween } from '../../domain/report/events/events.ts';
import { pauseEvents } from '../../domain/report/events/pause-events.ts';
import { nodeEvents } from '../../domain/report/node-events.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import { unknownComponentsText } from '../../domain/report/texts/release-text.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import type { Observed } from '../../domain/state/state.ts';
import { AppError } from '../../platform/app-error.ts';
import type { Next } from '../tasks/pulls.ts';
import type { TaskEnd } from '../tasks/tasks.ts';
import { catalogFor, conclude, degradedIn, type Remembered, remembered } from './conclude.ts';
import type { Loop } from './loop.ts';
import { observe } from './observe.ts';
import { type Pause, underWayMs } from './pace.ts';

/** The longest time between rounds. */
const ROUND_MS = 30_000;
/**
 * While the runtime does not answer or the state can't be written: nothing signals the end of that.
 */
const AWAY_MS = 5_000;

/**
 * INVARIANTS, in this order:
 * 1. From the begin of the observation until the decision no pull starts after another one. The
 *   observation may show a reason not to pull.
 * 2. The registry gets its catalog before an effect can make the runtime request an image, and
 *   after lost records were rebuilt: the first catalog ends the wait of early requests.
 * 3. All records are on the disk before anything is removed or changed.
 * 4. Layers, the pin ledger, the floors and attached files are updated before the effects. So the
 *   ledger has each pin before the runtime gets it.
 * 5. The status is published before the effects, because these may take long.
 * 6. Pulls may start one after another again when no effect failed.
 * @returns how long to wait for the next round
 * @throws AppError `store/…` when a record can't be written and this was not known before; whatever
 *   aborted `signal`
 */
export async function round(loop: Loop, signal: AbortSignal): Promise<Pause> {
  const { context, state, queue } = loop;
  const { clock, store, policy } = context;
  queue.begin();
  const at = clock.monotonic();
  state.lastRound = { at, observedMs: 0 };
  const diskTrouble = store.trouble();
  const snapshot = await observeAll(loop, diskTrouble, signal);
  if (diskTrouble?.code === 'store/version') return onlyReport(loop, snapshot, diskTrouble);
  const { observed, memory, assessment } = snapshot;
  const decision = decide(observed, memory, assessment, policy);
  const plan = observed.facts.keepsOnly === true ? undefined : keepPlan(observed, assessment, policy);
  state.lastRound = { at, observedMs: clock.monotonic() - at };
  try {
    await reconcileAll(loop, snapshot, decision, plan, signal);
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof AppError)) throw error;
    // Nothing is done before the records are on the disk. STATUS names the trouble.
    const obstacle = diskTrouble ?? { code: error.code, message: error.message };
    state.snapshot = { ...snapshot, memory: { ...memory, obstacle } };
    loop.status.publish();
    if (diskTrouble === undefined) throw error;
    return { atLeastMs: 0, atMostMs: AWAY_MS };
  }
  const report = loop.status.publish();
  if (report !== undefined && observed.facts.keepsOnly !== true) loop.hookKeeper.follow(nodeEvents(snapshot, report));
  const due = loop.pace.due(decision.effects);
  const executed = await act(loop, due.effects, assessment, signal);
  state.obstacle = due.obstacle ?? [...executed.values()].find((fault) => fault !== undefined);
  state.obstacleAt = state.obstacle && (state.obstacleAt ?? clock.monotonic());
  if (state.obstacle === undefined && decision.pullTest !== undefined) loop.pullChecker.start(decision.pullTest);
  // It only reads, and an activation may wait for it.
  if (decision.contentCheck !== undefined) loop.contentChecker.start(decision.contentCheck);
  if (state.obstacle === undefined && decision.documentCheck !== undefined) {
    loop.documentKeeper.start(decision.documentCheck);
  }
  goOn(loop, queue.decided(state.obstacle === undefined ? decision.pullQueue : undefined));
  return loop.pace.after(decision, {
    executed,
    wasRunning: memory.running.length > 0,
    latestMs: observed.runtime.kind !== 'reachable' || diskTrouble !== undefined ? AWAY_MS : ROUND_MS,
  });
}

/** What is recorded can't be read: pins, mirrors and files stay as they are until a person acts. */
function onlyReport(loop: Loop, snapshot: Snapshot, obstacle: Fault): Pause {
  loop.state.snapshot = { ...snapshot, memory: { ...snapshot.memory, obstacle } };
  loop.status.publish();
  return { atLeastMs: 0, atMostMs: ROUND_MS };
}

/** Also reports changes, and gives the registry its catalog. */
async function observeAll(loop: Loop, diskTrouble: Fault | undefined, signal: AbortSignal): Promise<Snapshot> {
  const { context, state } = loop;
  const landedBefore = [...state.landed];
  const known = remembered(loop, diskTrouble);
  const seen = await observe(
    context,
    loop.mediaJobs,
    loop.imageUses,
    (runtime, imageUses) => areContainersNeeded(loop, runtime, imageUses),
    signal,
  );
  state.sightings = sightingsAfter(state.sightings, seen.fleet, seen.boot.uptimeMs);
  const observed = { ...seen, runtime: withTimeAway(loop, seen.runtime), sightings: state.sightings };
  loop.contentChecker.saw(observed.runtime);
  loop.storageKeeper.saw(observed.runtime);
  if (observed.runtime.kind === 'reachable' && observed.containers !== undefined) {
    state.lastObservedAt = context.clock.monotonic();
    loop.running.saw({ images: observed.runtime.images, containers: observed.containers });
  }
  const before = state.snapshot;
  const snapshot = await concludeAll(loop, observed, known, signal);
  state.snapshot = snapshot;
  for (const reference of landedBefore) state.landed.delete(reference);
  const { memory, assessment } = snapshot;
  state.conditions = loop.conditionKeeper.follow(observed, memory, assessment);
  context.setCatalog(catalogFor(loop, snapshot), arrivingImages(memory, assessment));
  reportUnknownComponents(loop, snapshot);
  const events = [...eventsBetween(before, snapshot), ...loop.refusals.eventsOf(snapshot)];
  for (const event of events) context.recorder.record(event);
  return snapshot;
}

/** For so long a runtime may be busy, or start again, before a person is called. */
const BRIEF_MS = 60_000;

function withTimeAway({ context, state }: Loop, runtime: Snapshot['observed']['runtime']) {
  const now = context.clock.monotonic();
  state.awayAt = runtime.kind === 'unreachable' ? (state.awayAt ?? now) : undefined;
  const isBrief = state.awayAt !== undefined && now - state.awayAt < BRIEF_MS;
  return runtime.kind === 'unreachable' && isBrief ? { ...runtime, isBrief } : runtime;
}

/** INVARIANT: the loss of floors is noted first: rebuilt releases give only a lower bound. */
async function concludeAll(loop: Loop, observed: Observed, known: Remembered, signal: AbortSignal): Promise<Snapshot> {
  const snapshot = conclude(loop, observed, known);
  if (areFloorsForgotten(snapshot)) await loop.floorKeeper.reconcile(true, signal);
  if (observed.facts.keepsOnly === true) return snapshot;
  const isRebuilt = await loop.rebuildKeeper.reconcile(snapshot, signal);
  if (!isRebuilt) return snapshot;
  const [floors, pinLedger] = [loop.floorKeeper.floors(), loop.pinKeeper.ledger()];
  return conclude(loop, observed, { ...known, floors, pinLedger });
}

/** The runtime has pins of ours, which no record has. */
function areFloorsForgotten({ memory, assessment }: Snapshot): boolean {
  return memory.pinLedger === undefined && assessment.pins.unclaimed.length > 0;
}

/** Once for each set of names, since a later release may have them. */
function reportUnknownComponents({ context, state }: Loop, { assessment }: Snapshot): void {
  const kept = assessment.bundles.filter(({ phase }) => phase !== 'retired').map(({ bundle }) => bundle);
  const names = unknownComponents(kept, context.policy.retention);
  const logged = names.join(' ');
  if (names.length > 0 && logged !== state.reportedComponents) context.log.warn({}, unknownComponentsText(names));
  state.reportedComponents = logged;
}

function areContainersNeeded(
  { context, state, effects }: Loop,
  runtime: RuntimeObservation,
  imageUses: ImageUses | undefined,
): boolean {
  if (runtime.kind === 'reachable' && state.snapshot?.assessment.damaged.some(({ isPresent }) => isPresent))
    return true;
  return needsContainers(context.store.load(), runtime, context.policy, {
    isShort: (state.snapshot?.assessment.short.length ?? 0) > 0,
    sinceListMs: context.clock.monotonic() - state.lastObservedAt,
    tagsGiven: effects.tags.given,
    observed: { now: context.clock.now(), boot: context.node.boot(), imageUses },
  });
}

/** This removes files. */
async function reconcileAll(
  loop: Loop,
  snapshot: Snapshot,
  decision: Decision,
  plan: KeepPlan | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { context, tasks } = loop;
  const { observed, memory, assessment } = snapshot;
  loop.context.alive();
  recordPauses(context, snapshot);
  noteSightings(loop, snapshot);
  await context.store.settled(signal);
  loop.context.alive();
  await loop.mirrorKeeper.reconcile(signal);
  loop.context.alive();
  const isStarting = decision.pullsFollow === true || decision.effects.some(({ kind }) => kind === 'start');
  const isIdle = tasks.running().length === 0 && !isStarting;
  if (plan !== undefined) loop.layerKeeper.reconcile(plan, isIdle);
  loop.storageKeeper.reconcile(assessment, snapshot.observed.runtime, isIdle);
  await loop.pinKeeper.reconcile(assessment.pins, memory.pinLedger, signal);
  await loop.floorKeeper.reconcile(areFloorsForgotten(snapshot), signal);
  if (observed.facts.keepsOnly !== true) {
    await loop.signedKeeper.reconcile(signal);
    await loop.releaseKeeper.reconcile(assessment, signal);
    await loop.hookKeeper.reconcile(degradedIn(loop.state.conditions), signal);
  }
  context.afterRound?.();
}

/** A command may have changed them since the observation. */
function recordPauses({ store, policy, recorder }: Loop['context'], { observed }: Snapshot): void {
  const stored = store.load();
  const { pauses = [] } = stored;
  const next = pausesAfter({ ...stored, ...observed, pauses, policy });
  if (next === pauses) return;
  const events = pauseEvents(pauses, next);
  store.setPauses(
    next,
    events.map((event) => recorder.row(event)),
  );
  for (const event of events) recorder.log(event);
}

/** How often times of other nodes are written while a release waits for its turn. */
const NOTE_MS = 60_000;

function noteSightings({ context: { clock, store }, state }: Loop, { assessment }: Snapshot): void {
  const now = clock.monotonic();
  if (now - state.sightingsNotedMs < NOTE_MS) return;
  if (!assessment.bundles.some(({ rollOut }) => rollOut?.reads !== undefined)) return;
  state.sightingsNotedMs = now;
  store.setSightings(state.sightings);
}

/**
 * A failed effect is reported and the others are executed: none depends on another in one decision.
 * INVARIANTS: effects are executed in their order. Each begins when all earlier records are on the
 * disk: after a power cut there must be no effect whose record is lost. A task waits for the
 * records itself, since it must be listed at once so that it can be cancelled.
 * @returns the effects, and why each failed
 * @throws whatever aborted `signal`
 */
async function act(
  loop: Loop,
  wanted: readonly Effect[],
  assessment: Assessment,
  signal: AbortSignal,
): Promise<ReadonlyMap<Effect, Fault | undefined>> {
  const { context, effects } = loop;
  const executed = new Map<Effect, Fault | undefined>();
  for (const effect of wanted) {
    loop.context.alive();
    try {
      if (effect.kind !== 'start') await context.store.settled(signal);
      signal.throwIfAborted();
      await effects.execute(effect, assessment, signal);
      context.afterEffect?.(effect);
      executed.set(effect, undefined);
    } catch (error) {
      signal.throwIfAborted();
      executed.set(effect, context.recorder.recordFailure(effect, assessment, error));
    }
  }
  return executed;
}

/** After a successful pull, the next pulls may start without a round. */
export function followTask(loop: Loop, task: RunningTask, end: TaskEnd): void {
  if (task.kind === 'pull' && end === 'pulled') {
    loop.state.landed.add(task.reference);
    loop.contentChecker.changed(task.reference);
    loop.storageKeeper.changed(task.reference);
    goOn(loop, loop.queue.after(task.reference));
  } else loop.context.wantRound();
}

/** A round is scheduled soon to observe the results. */
function goOn(loop: Loop, { starts, needsRound }: Next): void {
  const { snapshot, lastRound } = loop.state;
  if (needsRound) loop.context.wantRound();
  if (starts.length === 0 || snapshot === undefined) return;
  for (const task of starts) startNow(loop, task, snapshot.assessment);
  loop.wake.kickAt(lastRound.at + underWayMs(lastRound.observedMs));
}

function startNow(loop: Loop, task: RunningTask, assessment: Assessment): void {
  if (loop.state.stopping.aborted) return;
  loop.context.alive();
  const effect: Effect = { kind: 'start', task };
  try {
    loop.effects.start(task, assessment);
    loop.context.afterEffect?.(effect);
  } catch (error) {
    loop.context.recorder.recordFailure(effect, assessment, error);
  }
}
