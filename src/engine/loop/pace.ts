import type { Decision } from '../../domain/decide/decision.ts';
import type { Effect } from '../../domain/state/effect.ts';

/**
 * Pause after a round that failed or wanted exactly the same effects as the round before. Doubled
 * each time, up to {@link REPEAT_MAX_MS}.
 */
const REPEAT_MS = 1_000;
const REPEAT_MAX_MS = 30_000;

/** The shortest time between rounds while pulls start one after another. */
const UNDER_WAY_MS = 1_000;
/**
 * Observing and deciding should take at most this share of the time while pulls run. With many
 * images or a slow runtime one observation may take several hundred milliseconds.
 */
const LOOK_SHARE = 0.03;
const UNDER_WAY_MAX_MS = 10_000;

/**
 * Time from the begin of a round to the begin of the next one while pulls start one after another,
 * in milliseconds. @param lookMs how long the round took to observe and to decide
 */
export function underWayMs(lookMs: number): number {
  return Math.min(UNDER_WAY_MAX_MS, Math.max(UNDER_WAY_MS, lookMs / LOOK_SHARE));
}

/** Effects that run in parallel to the rounds and ask for a round when they end. */
const ASK_AT_END: ReadonlySet<Effect['kind']> = new Set(['mount-medium', 'read-medium', 'keep-documents']);

/** How long to wait before the next round. */
export interface Pause {
  /**
   * Waited even when a round is requested. Something that fails may signal a change each time, and
   * would keep the processor busy.
   */
  readonly atLeastMs: number;
  /** Waited after that, unless a round is requested. */
  readonly atMostMs: number;
}

/** The result of a round. */
export interface RoundEnd {
  /** Whether an effect failed. */
  readonly failed: boolean;
  /**
   * Whether tasks ran before this round. One more task changes nothing that a round would report,
   * and its end asks for a round.
   */
  readonly wasRunning: boolean;
  /** The longest time without a round when there is nothing to do, in milliseconds. */
  readonly latestMs: number;
  readonly now: number;
}

/** Returns the pause after a round with this decision and this result. */
export type Pace = (decision: Decision, end: RoundEnd) => Pause;

/**
 * Decides the pauses between rounds: none after successful effects, a growing pause after effects
 * that failed or changed nothing, otherwise until the next due time.
 */
export function createPace(): Pace {
  let lastWanted = '';
  let stuck = 0;
  return ({ effects, wakeAt }, { failed, wasRunning, latestMs, now }) => {
    const wanted = JSON.stringify(effects);
    const isStuck = effects.length > 0 && (failed || wanted === lastWanted);
    lastWanted = wanted;
    stuck = isStuck ? stuck + 1 : 0;
    if (isStuck) {
      const pauseMs = Math.min(REPEAT_MAX_MS, latestMs, REPEAT_MS * 2 ** Math.min(10, stuck - 1));
      return { atLeastMs: REPEAT_MS, atMostMs: pauseMs - REPEAT_MS };
    }
    const isUnderWay = effects.every(({ kind }) => ASK_AT_END.has(kind) || (kind === 'start' && wasRunning));
    if (!isUnderWay) return { atLeastMs: 0, atMostMs: 0 };
    const untilDue = Math.max(0, (wakeAt ?? Number.MAX_SAFE_INTEGER) - now);
    return { atLeastMs: 0, atMostMs: Math.min(latestMs, untilDue) };
  };
}
