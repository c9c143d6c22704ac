import { pausesAfter } from '../../domain/activation/fleet-gate.ts';
import type { Assessment } from '../../domain/assess/assess.ts';
import { type Decision, decide } from '../../domain/decide/decide.ts';
import { keepPlan } from '../../domain/decide/pull-plan.ts';
import { isDigest } from '../../domain/model/digest.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { pinnedNames } from '../../domain/release/pulls.ts';
import { pauseEvents } from '../../domain/report/events/pause-events.ts';
import { nodeEvents } from '../../domain/report/node-events.ts';
import type { Snapshot } from '../../domain/report/snapshot.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import { AppError, reasonOf } from '../../platform/app-error.ts';
import { NEVER_ABORTED, untilAborted, withEither } from '../../platform/async/abort.ts';
import type { Wake } from '../../platform/async/wake.ts';
import { oneLine } from '../../platform/plain-text.ts';
import type { Effects } from '../effects/effects.ts';

import type { TaskEnd } from '../tasks/tasks.ts';
import type { Observer } from './observer.ts';
import { type Next, Pace, type Pause, type RunningQueue, underWayMs } from './pace.ts';
import type { Parts } from './parts.ts';
import type { StatusPublisher } from './status-publisher.ts';

/** The longest time between rounds. */
const ROUND_MS = 30_000;
/** Nothing signals that the runtime answers again, or that the state can be written again. */
const AWAY_MS = 5_000;
/** Pause after a round that threw. */
const BROKEN_PAUSE_MS = 5_000;
/** How long a caller waits for a round. */
const NEXT_ROUND_MS = 10_000;
/** The pin is lost at the end of the pull, which takes less than a second of a present image. */
const SETTLED_MS = 2_000;

/** Makes the rounds. Times are monotonic milliseconds. */
export class Rounds {
  private readonly pace: Pace;
  /** `observedMs`: the time to observe and to decide. */
  private last: { readonly at: number; readonly observedMs: number };
  /** When the newest pull of a pinned image by others ends, after which its pin may be lost. */
  private pullsSettledAt = Number.NEGATIVE_INFINITY;
  private stopping = NEVER_ABORTED;
  /** They are called after the next round that begins. */
  private waiting: readonly (() => void)[] = [];
  private readonly namesOf = new WeakMap<Snapshot, ReadonlySet<string>>();

  constructor(
    private readonly parts: Parts,
    private readonly effects: Effects,
    private readonly observer: Observer,
    private readonly status: StatusPublisher,
    private readonly wake: Wake,
    private readonly queue: RunningQueue,
  ) {
    const { clock } = parts.ports;
    this.pace = new Pace(clock);
    this.last = { at: clock.monotonic(), observedMs: 0 };
  }

  /**
   * Makes rounds until `signal` aborts, then cancels all tasks. INVARIANT: one round at a time.
   * Only rounds and their tasks change the runtime, the media and the files.
   */
  async run(signal: AbortSignal): Promise<void> {
    const { ports, inOrder, tasks } = this.parts;
    const { clock, alive } = ports;
    this.stopping = signal;
    const stopTicking = this.status.tick();
    const unsubscribe = this.follow();
    try {
      while (!signal.aborted) {
        const { atLeastMs, atMostMs } = await this.safeRound(signal);
        alive();
        // The round may have begun before the newest of these pulls ended.
        if (this.pullsSettledAt > this.last.at) this.wake.kickAt(this.pullsSettledAt);
        if (atLeastMs > 0) await clock.sleep(atLeastMs, signal).catch(() => undefined);
        if (atMostMs > 0) await this.wake.wait(atMostMs, signal);
      }
    } finally {
      stopTicking();
      for (const stop of unsubscribe) stop();
      await Promise.all([tasks.cancelAll(), ports.jobs.stop(), ...inOrder.map((part) => part.stop?.())]);
    }
  }

  /** Resolves after a round that begins from now on, or when it takes too long. */
  async next(signal: AbortSignal): Promise<void> {
    const over = new Promise<void>((resolve) => {
      this.waiting = [...this.waiting, resolve];
    });
    this.parts.ports.wantRound();
    await withEither([signal, AbortSignal.timeout(NEXT_ROUND_MS)], (either) => untilAborted(over, either)).catch(() =>
      signal.throwIfAborted(),
    );
  }

  /** The next pulls may start without a round after a successful one. */
  taskEnded(task: RunningTask, end: TaskEnd): void {
    const { ports, contentChecker, storageKeeper } = this.parts;
    if (task.kind !== 'pull' || end !== 'pulled') {
      ports.wantRound();
      return;
    }
    this.observer.landed.add(task.reference);
    contentChecker.changed(task.reference);
    storageKeeper.changed(task.reference);
    this.goOn(this.queue.after(task.reference));
  }

  private follow() {
    const { media, runtime, fleet, meter, wantRound } = this.parts.ports;
    return [
      media.onChange(() => {
        this.status.mediaChanged();
        wantRound();
      }),
      runtime.onChange(() => {
        this.observer.imageUses.forget();
        wantRound();
      }),
      ...(fleet === undefined ? [] : [fleet.onChange(wantRound)]),
      meter.onManifestRequest((path, reference) => this.followRequest(path, reference)),
    ];
  }

  /** An error of a round, a bug or a full disk, must never end the daemon. */
  private async safeRound(signal: AbortSignal): Promise<Pause> {
    const { waiting } = this;
    this.waiting = [];
    try {
      return await this.round(signal);
    } catch (error) {
      if (signal.aborted) return { atLeastMs: 0, atMostMs: 0 };
      this.status.logTrouble(`A round failed: ${reasonOf(error)}; it is tried again`, error);
      const isOwn = !(error instanceof AppError && (error.disposition === 'retry' || error.disposition === 'wait'));
      const what = isOwn ? `An error in stickpin itself: ${reasonOf(error)}` : reasonOf(error);
      this.parts.ports.notifier.status(oneLine(`${what}. It is retried automatically.`));
      return { atLeastMs: BROKEN_PAUSE_MS, atMostMs: 0 };
    } finally {
      for (const done of waiting) done();
    }
  }

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
   * @throws AppError `store/…` when a record can't be written and this was not known before;
   *   whatever aborted `signal`
   */
  private async round(signal: AbortSignal): Promise<Pause> {
    const { parts, observer, queue } = this;
    const { clock, store, policy } = parts.ports;
    queue.begin();
    const at = clock.monotonic();
    this.last = { at, observedMs: 0 };
    const diskTrouble = store.trouble();
    const snapshot = await observer.observe(diskTrouble, signal);
    if (diskTrouble?.code === 'store/version') return this.onlyReport(snapshot, diskTrouble);
    const { observed, memory, assessment } = snapshot;
    const decision = decide(observed, memory, assessment, policy);
    this.last = { at, observedMs: clock.monotonic() - at };
    try {
      await this.reconcile(snapshot, decision, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof AppError)) throw error;
      // Nothing is done before the records are on the disk. STATUS names the trouble.
      observer.hindered(snapshot, diskTrouble ?? { code: error.code, message: error.message });
      this.status.publish();
      if (diskTrouble === undefined) throw error;
      return { atLeastMs: 0, atMostMs: AWAY_MS };
    }
    const report = this.status.publish();
    if (report !== undefined && observed.facts.keepsOnly !== true)
      parts.hookKeeper.follow(nodeEvents(snapshot, report));
    const due = this.pace.due(decision.effects);
    const executed = await this.act(due.effects, assessment, signal);
    const obstacle = due.obstacle ?? [...executed.values()].find((fault) => fault !== undefined);
    observer.acted(obstacle);
    if (obstacle === undefined && decision.pullTest !== undefined) parts.pullChecker.start(decision.pullTest);
    // It only reads, and an activation may wait for it.
    if (decision.contentCheck !== undefined) parts.contentChecker.start(decision.contentCheck);
    if (obstacle === undefined && decision.documentCheck !== undefined) {
      parts.documentKeeper.start(decision.documentCheck);
    }
    this.goOn(queue.decided(obstacle === undefined ? decision.pullQueue : undefined));
    return this.pace.after(decision, {
      executed,
      wasRunning: memory.running.length > 0,
      latestMs: observed.runtime.kind !== 'reachable' || diskTrouble !== undefined ? AWAY_MS : ROUND_MS,
    });
  }

  /**
   * What is recorded can't be read: pins, mirrors and files stay as they are until a person acts.
   */
  private onlyReport(snapshot: Snapshot, obstacle: Fault): Pause {
    this.observer.hindered(snapshot, obstacle);
    this.status.publish();
    return { atLeastMs: 0, atMostMs: ROUND_MS };
  }

  /** This removes files. */
  private async reconcile(snapshot: Snapshot, decision: Decision, signal: AbortSignal): Promise<void> {
    const { ports, inOrder, tasks } = this.parts;
    const { observed, assessment } = snapshot;
    ports.alive();
    this.recordPauses(observed);
    this.observer.noteSightings(snapshot);
    await ports.store.settled(signal);
    const isStarting = decision.pullsFollow === true || decision.effects.some(({ kind }) => kind === 'start');
    const decided = {
      ...snapshot,
      conditions: this.observer.conditions,
      plan: observed.facts.keepsOnly === true ? undefined : keepPlan(observed, assessment, ports.policy),
      // What ended since the observation may be followed by the next pulls.
      isIdle: snapshot.memory.running.length + tasks.running().length === 0 && !isStarting,
    };
    for (const part of inOrder) {
      ports.alive();
      await part.reconcile?.(decided, signal);
    }
    ports.afterRound?.();
  }

  /** A command may have changed them since the observation. */
  private recordPauses(observed: Snapshot['observed']): void {
    const { store, policy, recorder } = this.parts.ports;
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

  /**
   * A failed effect is reported and the others are executed: none depends on another in one
   * decision. INVARIANTS: effects are executed in their order. Each begins when all earlier records
   * are on the disk: after a power cut there must be no effect whose record is lost. A task waits
   * for the records itself, since it must be listed at once so that it can be cancelled.
   * @returns the effects, and why each failed
   * @throws whatever aborted `signal`
   */
  private async act(
    wanted: readonly Effect[],
    assessment: Assessment,
    signal: AbortSignal,
  ): Promise<ReadonlyMap<Effect, Fault | undefined>> {
    const { store, recorder, alive, afterEffect } = this.parts.ports;
    const executed = new Map<Effect, Fault | undefined>();
    for (const effect of wanted) {
      alive();
      try {
        if (effect.kind !== 'start') await store.settled(signal);
        signal.throwIfAborted();
        await this.effects.execute(effect, assessment, signal);
        afterEffect?.(effect);
        executed.set(effect, undefined);
      } catch (error) {
        signal.throwIfAborted();
        executed.set(effect, recorder.recordFailure(effect, assessment, error));
      }
    }
    return executed;
  }

  /** A round is scheduled soon to observe the results. */
  private goOn({ starts, needsRound }: Next): void {
    const { snapshot } = this.observer;
    if (needsRound) this.parts.ports.wantRound();
    if (starts.length === 0 || snapshot === undefined) return;
    for (const task of starts) this.startNow(task, snapshot.assessment);
    this.wake.kickAt(this.last.at + underWayMs(this.last.observedMs));
  }

  private startNow(task: RunningTask, assessment: Assessment): void {
    const { alive, afterEffect, recorder } = this.parts.ports;
    if (this.stopping.aborted) return;
    alive();
    const effect: Effect = { kind: 'start', task };
    try {
      this.effects.start(task, assessment);
      afterEffect?.(effect);
    } catch (error) {
      recorder.recordFailure(effect, assessment, error);
    }
  }

  /**
   * Call after each request for a manifest. A pull of a pinned image by others may take its pin
   * away, so a round pins it again soon. One round serves all requests, and one more those shortly
   * before it. What the engine pulls itself is followed by a round anyway.
   * @param path the mirror path of the repository
   * @param reference a digest or a tag
   */
  private followRequest(path: string, reference: string): void {
    const { ports, tasks, pullChecker } = this.parts;
    const { snapshot } = this.observer;
    if (snapshot === undefined || tasks.running().length > 0 || pullChecker.checks().isRunning) return;
    const name = `${path}${isDigest(reference) ? '@' : ':'}${reference}`;
    if (!this.namesIn(snapshot).has(name)) return;
    this.pullsSettledAt = ports.clock.monotonic() + SETTLED_MS;
    this.wake.kickAt(this.pullsSettledAt);
  }

  private namesIn(snapshot: Snapshot): ReadonlySet<string> {
    const known = this.namesOf.get(snapshot);
    if (known !== undefined) return known;
    const { observed, assessment } = snapshot;
    const bundles = assessment.bundles.map(({ bundle }) => bundle);
    const names = pinnedNames(observed.runtime, bundles, assessment.tags.afterProof);
    this.namesOf.set(snapshot, names);
    return names;
  }
}
