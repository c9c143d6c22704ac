import { digestOf } from '../../platform/digest.ts';

/** The least wariness that a hash gives: a node that is to be the first of all says so itself. */
const LEAST_HASHED_WARINESS = 1e-6;

/** How cautious a node is in rollouts, and where that comes from. */
export interface Wariness {
  /** 0 (among the first) to 1 (the last). */
  readonly value: number;
  /** `none`: there is neither a setting nor a usable machine id, so that it is the last. */
  readonly source: 'setting' | 'machine-id' | 'none';
}

/**
 * The wariness of this node in the rollouts of a stream: the setting, else a hash, else 1.
 *
 * @param machineId as in machine-id(5); undefined when there is none
 */
export function warinessOf(stream: string, setting: number | undefined, machineId: string | undefined): Wariness {
  if (setting !== undefined) return { value: setting, source: 'setting' };
  if (machineId === undefined) return { value: 1, source: 'none' };
  return { value: hashedWariness(machineId, stream), source: 'machine-id' };
}

/** Bytes of the hash that count. A double holds a whole number of this size exactly. */
const COUNTED_BYTES = 6;

/**
 * A number from 1e-6 to 1 that stays the same for a machine and a stream: the first 6 bytes of the
 * SHA-256 of `<machine id>:<stream>`, as a whole number, divided by 2^48 - 1
 * (docs/bundle-format.md, "Rollout").
 */
export function hashedWariness(machineId: string, stream: string): number {
  const hex = digestOf(`${machineId}:${stream}`).slice('sha256:'.length);
  const number = Number.parseInt(hex.slice(0, 2 * COUNTED_BYTES), 16);
  return Math.max(LEAST_HASHED_WARINESS, number / (2 ** (8 * COUNTED_BYTES) - 1));
}

/**
 * The machine id in the content of `/etc/machine-id` (machine-id(5)): 32 lower-case hex digits, not
 * all zero. Undefined for anything else, as for the word `uninitialized`.
 */
export function parseMachineId(content: string): string | undefined {
  const id = content.trim();
  return /^[0-9a-f]{32}$/.test(id) && !/^0+$/.test(id) ? id : undefined;
}
