import type { Decision } from '../../domain/decide/decision.ts';
import type { Effect } from '../../domain/state/effect.ts';

/**
 * Pause after a round that failed or that wanted the very same as the one before; doubled each time
 * up to {@link REPEAT_MAX_MS}.
 */
const REPEAT_MS = 1_000;
const REPEAT_MAX_MS = 30_000;

/** A round so often while pulls follow each other. */
const UNDER_WAY_MS = 1_000;
/**
 * To look and to decide takes no more than this part of the time, if it can be had: with many
 * images, on a slow runtime, that may be a good part of a second.
 */
const LOOK_SHARE = 0.03;
const UNDER_WAY_MAX_MS = 10_000;

/**
 * How long after the begin of a round whose look took `lookMs` the next one begins while pulls
 * follow each other, in milliseconds.
 */
export function underWayMs(lookMs: number): number {
  return Math.min(UNDER_WAY_MAX_MS, Math.max(UNDER_WAY_MS, lookMs / LOOK_SHARE));
}

/** What runs beside the rounds, and asks for one when it has ended. */
const ASK_AT_END: ReadonlySet<Effect['kind']> = new Set(['mount-medium', 'read-medium', 'keep-documents']);

/** How long to wait for the next round. */
export interface Pause {
  /**
   * Even if somebody wants a round: what fails may signal a change each time, and would keep the
   * processor busy.
   */
  readonly atLeastMs: number;
  /** After that, unless somebody wants a round. */
  readonly atMostMs: number;
}

/** What is known when a round is over. */
export interface RoundEnd {
  /** Whether an effect failed. */
  readonly failed: boolean;
  /**
   * Whether tasks ran already: what was started beside them changes nothing that a round would
   * tell, and its end asks for a round.
   */
  readonly wasRunning: boolean;
  /** The longest time without a round when nothing is to be done, in milliseconds. */
  readonly latestMs: number;
  readonly now: number;
}

/** How long to wait after a round that decided this and ended so. */
export type Pace = (decision: Decision, end: RoundEnd) => Pause;

/**
 * The pace of the rounds: on at once after effects that worked, a growing pause after what failed
 * or did not help, and otherwise until something is due.
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
