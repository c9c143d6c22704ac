import { digestOf } from '../../platform/digest.ts';
import type { UpdateRules } from './bundle.ts';

export type Rollout = NonNullable<UpdateRules['rollout']>;

const MINUTE_MS = 60_000;
/** The last time that a Date can hold (ECMA-262, "Time Values"). */
const LAST_TIME = 8.64e15;

/**
 * Returns the share of nodes that may activate a release, 0 to 1 (fedora-coreos-cincinnati,
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

export function isThrottled(rollout: Rollout, wariness: number, time: number): boolean {
  return wariness > throttleAt(rollout, time);
}

/** @returns milliseconds, undefined for never, `Number.NEGATIVE_INFINITY` for wariness 0 */
export function turnOf(rollout: Rollout, wariness: number): number | undefined {
  const { startMs, startShare, durationMs } = termsOf(rollout);
  if (wariness <= 0) return Number.NEGATIVE_INFINITY;
  if (wariness <= startShare) return startMs;
  if (durationMs === undefined) return undefined;
  // A formula would round in another way than the throttle, so this searches.
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

/** Only a setting makes a node the first of all. */
const LEAST_HASHED_WARINESS = 1e-6;

export interface Wariness {
  /** 0 comes among the first, 1 comes last. */
  readonly value: number;
  /** `none`: the node has neither a setting nor a usable machine id, so it comes last. */
  readonly source: 'setting' | 'machine-id' | 'none';
}

/** Prefers the setting, then a hash, then 1. */
export function warinessOf(stream: string, setting: number | undefined, machineId: string | undefined): Wariness {
  if (setting !== undefined) return { value: setting, source: 'setting' };
  if (machineId === undefined) return { value: 1, source: 'none' };
  return { value: hashedWariness(machineId, stream), source: 'machine-id' };
}

/** A double holds a whole number of this size exactly. */
const COUNTED_BYTES = 6;

/**
 * Returns 1e-6 to 1, constant for a machine and a stream: the first 6 bytes of the SHA-256 of
 * `<machine id>:<stream>` as a whole number, divided by 2^48 - 1 (docs/bundle-format.md,
 * "Rollout").
 */
export function hashedWariness(machineId: string, stream: string): number {
  const hex = digestOf(`${machineId}:${stream}`).slice('sha256:'.length);
  const number = Number.parseInt(hex.slice(0, 2 * COUNTED_BYTES), 16);
  return Math.max(LEAST_HASHED_WARINESS, number / (2 ** (8 * COUNTED_BYTES) - 1));
}

/** machine-id(5): 32 lower-case hex digits, not all zero. Undefined for `uninitialized`. */
export function parseMachineId(content: string): string | undefined {
  const id = content.trim();
  return /^[0-9a-f]{32}$/.test(id) && !/^0+$/.test(id) ? id : undefined;
}
