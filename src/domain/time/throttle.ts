import type { UpdateRules } from '../model/bundle.ts';

/** The rule `rollout` of a payload. */
export type Rollout = NonNullable<UpdateRules['rollout']>;

const MINUTE_MS = 60_000;
/**
 * The last time that a Date can hold (ECMA-262, "Time Values"). Above it whole milliseconds end.
 */
const LAST_TIME = 8.64e15;

/**
 * The share of nodes that may activate a release at a time, 0 to 1 (fedora-coreos-cincinnati,
 * `throttle_rollouts`): 0 before the start, 1 from the end on, and a straight line from
 * `startPercentage` to 1 between them. Without a duration it stays at `startPercentage`.
 *
 * @param time milliseconds since the epoch
 */
export function throttleAt(rollout: Rollout, time: number): number {
  const { startMs, startShare, durationMs } = termsOf(rollout);
  if (time < startMs) return 0;
  if (durationMs === undefined) return startShare;
  if (time >= startMs + durationMs) return 1;
  return startShare + ((1 - startShare) * (time - startMs)) / durationMs;
}

/** Whether a node of this wariness has to wait at a time: it is greater than the throttle. */
export function isThrottled(rollout: Rollout, wariness: number, time: number): boolean {
  return wariness > throttleAt(rollout, time);
}

/**
 * The first millisecond at which a node of this wariness does not have to wait; undefined when that
 * never comes. A node of wariness 0 never waits: `Number.NEGATIVE_INFINITY`.
 */
export function turnOf(rollout: Rollout, wariness: number): number | undefined {
  const { startMs, startShare, durationMs } = termsOf(rollout);
  if (wariness <= 0) return Number.NEGATIVE_INFINITY;
  if (wariness <= startShare) return startMs;
  if (durationMs === undefined) return undefined;
  // Searched for, not computed: a formula would be rounded in another way than the throttle.
  let [waits, may] = [startMs, Math.min(startMs + durationMs, LAST_TIME)];
  if (isThrottled(rollout, wariness, may)) return undefined;
  while (may - waits > 1) {
    const middle = Math.floor((waits + may) / 2);
    if (isThrottled(rollout, wariness, middle)) waits = middle;
    else may = middle;
  }
  return may;
}

function termsOf({ start, startPercentage = 0, durationMinutes }: Rollout) {
  return {
    startMs: start === undefined ? 0 : Date.parse(start),
    startShare: startPercentage,
    durationMs: durationMinutes === undefined ? undefined : durationMinutes * MINUTE_MS,
  };
}
