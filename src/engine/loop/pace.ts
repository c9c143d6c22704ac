import type { Decision } from '../../domain/decide/decide.ts';
import type { Fault } from '../../domain/model/reason.ts';
import { afterPull, type PullQueue } from '../../domain/preload/pull-schedule.ts';
import type { Effect } from '../../domain/state/effect.ts';
import type { RunningTask } from '../../domain/state/memory.ts';
import { pauseAfter } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';

/** Pause after an effect that failed or changed nothing; doubled up to {@link REPEAT_MAX_MS}. */
const REPEAT_MS = 1_000;
const REPEAT_MAX_MS = 30_000;

/** The shortest time between rounds while pulls start one after another. */
const UNDER_WAY_MS = 1_000;
/** The largest share of observations while pulls run. One may take several hundred milliseconds. */
const OBSERVED_SHARE = 0.03;
const UNDER_WAY_MAX_MS = 10_000;

/** How long a round lasts until the next one begins, in milliseconds. */
export function underWayMs(observedMs: number): number {
  return Math.min(UNDER_WAY_MAX_MS, Math.max(UNDER_WAY_MS, observedMs / OBSERVED_SHARE));
}

/** Effects beside the rounds, which request a round at their end. */
const ASK_AT_END: ReadonlySet<Effect['kind']> = new Set(['mount-medium', 'read-medium', 'keep-documents']);

export interface Pause {
  /** Even when requested: a failure may signal a change each time. */
  readonly atLeastMs: number;
  /** After that, unless a round is requested. */
  readonly atMostMs: number;
}

export interface DueEffects {
  readonly effects: readonly Effect[];
  /** Why the first of the others failed, which is retried later. */
  readonly obstacle: Fault | undefined;
}

export interface RoundEnd {
  readonly executed: ReadonlyMap<Effect, Fault | undefined>;
  /** Tasks ran before. One more changes nothing in a report, and its end requests a round. */
  readonly wasRunning: boolean;
  /** The longest time without a round, in milliseconds. */
  readonly latestMs: number;
}

interface Tried {
  /** How often in a row it failed, or the same decision came again. */
  readonly vain: number;
  readonly pauseMs: number;
  /** Monotonic milliseconds. */
  readonly dueAt: number;
  readonly fault: Fault | undefined;
}

/**
 * Decides when effects are executed and how long rounds pause. INVARIANT: an effect that failed or
 * changed nothing waits longer each time, whatever requests rounds. It delays no other effect.
 */
export class Pace {
  private readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  private readonly tried = new Map<string, Tried>();
  private lastDecided = '';

  constructor(clock: Pick<Clock, 'now' | 'monotonic'>) {
    this.clock = clock;
  }

  due(wanted: readonly Effect[]): DueEffects {
    this.forget(new Set(wanted.map(keyOf)));
    const waiting = wanted.filter((effect) => this.isWaiting(effect));
    const effects = wanted.filter((effect) => !waiting.includes(effect));
    // The reload that pins leave to the mirrors would be missing.
    const isReloadLeft = waiting.some(({ kind }) => kind === 'apply-mirrors');
    return {
      effects: isReloadLeft ? effects.map(withOwnReload) : effects,
      obstacle: waiting.map((effect) => this.tried.get(keyOf(effect))?.fault).find((fault) => fault !== undefined),
    };
  }

  /** None after effects that may have changed something, otherwise until the next due time. */
  after({ effects, wakeAt }: Decision, { executed, wasRunning, latestMs }: RoundEnd): Pause {
    const decided = JSON.stringify(effects);
    const isSame = decided === this.lastDecided;
    this.lastDecided = decided;
    const longestMs = Math.min(REPEAT_MAX_MS, latestMs);
    for (const [effect, fault] of executed)
      this.note(effect, { fault, isVain: fault !== undefined || isSame, longestMs });
    const isVain = [...executed.keys()].some((effect) => this.isWaiting(effect));
    const atLeastMs = isVain ? REPEAT_MS : 0;
    const isUnderWay = effects.every(
      (effect) => this.isWaiting(effect) || ASK_AT_END.has(effect.kind) || (effect.kind === 'start' && wasRunning),
    );
    if (!isUnderWay) return { atLeastMs, atMostMs: 0 };
    const untilDue = (wakeAt ?? Number.MAX_SAFE_INTEGER) - this.clock.now();
    const untilTried = effects.filter((effect) => this.isWaiting(effect)).map((effect) => this.leftMs(effect));
    return { atLeastMs, atMostMs: Math.max(0, Math.min(latestMs, untilDue, ...untilTried) - atLeastMs) };
  }

  private note(
    effect: Effect,
    {
      fault,
      isVain,
      longestMs,
    }: { readonly fault: Fault | undefined; readonly isVain: boolean; readonly longestMs: number },
  ): void {
    const vain = isVain ? (this.tried.get(keyOf(effect))?.vain ?? 0) + 1 : 0;
    const pauseMs = pauseAfter(vain, { firstMs: REPEAT_MS, longestMs });
    this.tried.set(keyOf(effect), { vain, pauseMs, dueAt: this.clock.monotonic() + pauseMs, fault });
  }

  /** A failed effect may be unwanted for a moment, as while the runtime restarts. */
  private forget(wanted: ReadonlySet<string>): void {
    const now = this.clock.monotonic();
    for (const [key, { fault, dueAt, pauseMs }] of this.tried) {
      if (!wanted.has(key) && (fault === undefined || now >= dueAt + pauseMs)) this.tried.delete(key);
    }
  }

  private isWaiting(effect: Effect): boolean {
    return this.leftMs(effect) > 0;
  }

  private leftMs(effect: Effect): number {
    return (this.tried.get(keyOf(effect))?.dueAt ?? 0) - this.clock.monotonic();
  }
}

function keyOf(effect: Effect): string {
  return JSON.stringify(withOwnReload(effect));
}

function withOwnReload(effect: Effect): Effect {
  if (effect.kind !== 'apply-pins') return effect;
  const { mirrorsFollow: _left, ...alone } = effect;
  return alone;
}

export interface Next {
  readonly starts: readonly RunningTask[];
  readonly needsRound: boolean;
}

const LATER: Next = { starts: [], needsRound: false };
const ROUND: Next = { starts: [], needsRound: true };

/** Pulls that start without a round, which takes long for a release with a thousand images. */
export class RunningQueue {
  private pullQueue: PullQueue | undefined;
  /** Pulls that ended since a round began. Undefined between rounds, and after `stop()`. */
  private ended: string[] | undefined;

  /** Call when a round begins. No pull starts until it has decided. */
  begin(): void {
    this.pullQueue = undefined;
    this.ended = [];
  }

  /** Call when a round is requested: no pull starts now or after the current round. */
  stop(): void {
    this.pullQueue = undefined;
    this.ended = undefined;
  }

  /** Returns what starts after the pulls that ended meanwhile. */
  decided(next: PullQueue | undefined): Next {
    const missed = this.ended;
    this.ended = undefined;
    if (missed === undefined) return LATER;
    this.pullQueue = next;
    const starts = missed.flatMap((reference) => this.after(reference).starts);
    return { starts, needsRound: missed.length > 0 && starts.length === 0 };
  }

  after(reference: string): Next {
    if (this.ended !== undefined) {
      this.ended.push(reference);
      return LATER;
    }
    if (this.pullQueue === undefined) return ROUND;
    const next = afterPull(this.pullQueue, reference);
    this.pullQueue = next.pullQueue;
    return { starts: next.starts, needsRound: next.starts.length === 0 };
  }
}
