import type { Clock } from '../../platform/clock.ts';

/**
 * How long nodes gave no sign of life while they were queried. Nodes of an idle cluster say
 * nothing, so silence counts only during queries.
 */
export class Silence {
  private readonly seen = new Map<string, number>();
  private readonly silent = new Map<string, number>();
  private lastMs: number;
  private heardMs: number | undefined;

  /** @param absentMs `fleet.absent` */
  constructor(
    private readonly absentMs: number,
    private readonly clock: Clock,
  ) {
    this.lastMs = clock.monotonic();
  }

  heard(node: string): void {
    this.seen.set(node, this.clock.now());
    this.silent.set(node, 0);
    this.heardMs = this.clock.monotonic();
  }

  /** The Kubernetes API shows that it lives. */
  isAlive(node: string): void {
    this.silent.set(node, 0);
  }

  /** In milliseconds. */
  silentMs(node: string): number {
    return this.silent.get(node) ?? 0;
  }

  /** Monotonic milliseconds; undefined: never since the start. */
  lastHeardMs(): number | undefined {
    return this.heardMs;
  }

  /** Milliseconds since the epoch; undefined: never since the start. */
  seenAt(node: string): number | undefined {
    return this.seen.get(node);
  }

  isAbsent(node: string): boolean {
    return this.silentMs(node) >= this.absentMs;
  }

  /** It is silent for minutes, or some rounds in a large cluster, and counts as unavailable. */
  isSilent(node: string): boolean {
    const roundsMs = SILENT_ROUNDS * this.silent.size * queryMs(this.silent.size, this.absentMs);
    return this.silentMs(node) >= Math.min(Math.max(HEARS_MS, roundsMs), this.absentMs);
  }

  /** @param isQuerying whether nodes were queried since the last call */
  pass(nodes: readonly string[], isQuerying: boolean): void {
    const nowMs = this.clock.monotonic();
    const passedMs = isQuerying ? nowMs - this.lastMs : 0;
    this.lastMs = nowMs;
    const known = new Set(nodes);
    for (const node of known) this.silent.set(node, this.silentMs(node) + passedMs);
    for (const node of [...this.silent.keys()]) if (!known.has(node)) this.silent.delete(node);
  }
}

/** A round over all nodes takes twice as long where most of them have news all the time. */
const SILENT_ROUNDS = 3;

/**
 * Queries of all peers together, in a second on average: 240 nodes every half minute, and the nodes
 * of a larger cluster one after the other.
 */
const QUERIES_PER_SECOND = 8;

/** In `fleet.absent` each node is queried so many times. */
export const ROUNDS_TILL_ABSENT = 4;

/**
 * Between two queries, in milliseconds. A node that is queried too seldom would count as absent.
 */
export function queryMs(nodes: number, absentMs: number): number {
  return 1_000 / Math.max(QUERIES_PER_SECOND, (ROUNDS_TILL_ABSENT * 1_000 * nodes) / absentMs);
}

/** Whether this node would hear others. */
interface Hearing {
  readonly isQuerying: boolean;
  /** Or needs none. */
  readonly hasIdentity: boolean;
  readonly isApiComplete: boolean;
  /** Monotonic, as `nowMs`; undefined: never. */
  readonly lastHeardMs: number | undefined;
  readonly nowMs: number;
}

/** Nodes in need query, and are queried, at least every 30 s. */
const HEARS_MS = 5 * 60_000;

/**
 * A node that hears nobody, and that the Kubernetes API does not show the others, may itself be cut
 * off: then silence does not count.
 */
export function countsSilence(hearing: Hearing): boolean {
  const { isQuerying, hasIdentity, isApiComplete, lastHeardMs, nowMs } = hearing;
  const hears = isApiComplete || (lastHeardMs !== undefined && nowMs - lastHeardMs <= HEARS_MS);
  return isQuerying && hasIdentity && hears;
}
