import type { Clock } from '../../platform/clock.ts';

/** For how long nodes gave no sign of life while they were asked for one. */
export interface Silence {
  /** A node gave a sign of life. */
  heard(node: string): void;
  /** It lives, by what others say. */
  isAlive(node: string): void;
  /** For how long a node has been silent while it was asked, in milliseconds. */
  silentMs(node: string): number;
  /** When any node was heard last, in monotonic milliseconds; undefined: never since the start. */
  lastHeardMs(): number | undefined;
  /**
   * When a node was heard last, in milliseconds since the epoch; undefined: never since the start.
   */
  seenAt(node: string): number | undefined;
  /** Time has passed. @param isAsking whether nodes were asked since the last call */
  pass(nodes: readonly string[], isAsking: boolean): void;
  isAbsent(node: string): boolean;
}

/**
 * Counts the silence of nodes. Nodes of an idle cluster say nothing, so that their silence counts
 * only while they are asked.
 *
 * @param absentMs `fleet.absent`
 */
export function createSilence(absentMs: number, clock: Clock): Silence {
  const seen = new Map<string, number>();
  const silent = new Map<string, number>();
  let lastMs = clock.monotonic();
  let lastHeardMs: number | undefined;
  return {
    heard: (node) => {
      seen.set(node, clock.now());
      silent.set(node, 0);
      lastHeardMs = clock.monotonic();
    },
    isAlive: (node) => void silent.set(node, 0),
    silentMs: (node) => silent.get(node) ?? 0,
    lastHeardMs: () => lastHeardMs,
    seenAt: (node) => seen.get(node),
    pass: (nodes, isAsking) => {
      const nowMs = clock.monotonic();
      const passedMs = isAsking ? nowMs - lastMs : 0;
      lastMs = nowMs;
      const known = new Set(nodes);
      for (const node of known) silent.set(node, (silent.get(node) ?? 0) + passedMs);
      for (const node of [...silent.keys()]) if (!known.has(node)) silent.delete(node);
    },
    isAbsent: (node) => (silent.get(node) ?? 0) >= absentMs,
  };
}

/** What tells whether this node would hear others. */
export interface Hearing {
  /** Whether nodes are asked. */
  readonly isAsking: boolean;
  /** Whether this node can prove who it is, or need not. */
  readonly hasIdentity: boolean;
  /** Whether the Kubernetes API shows all nodes. */
  readonly isApiComplete: boolean;
  /** When any node was heard last; undefined: never. Monotonic, as `nowMs`. */
  readonly lastHeardMs: number | undefined;
  readonly nowMs: number;
}

/** Nodes that need something ask, and are asked, at least every 30 s. */
const HEARS_MS = 5 * 60_000;

/**
 * Whether silence of others counts. A node that hears nobody at all, and to which the Kubernetes
 * API does not show the others, may itself be the one that is cut off.
 */
export function countsSilence(hearing: Hearing): boolean {
  const { isAsking, hasIdentity, isApiComplete, lastHeardMs, nowMs } = hearing;
  const hears = isApiComplete || (lastHeardMs !== undefined && nowMs - lastHeardMs <= HEARS_MS);
  return isAsking && hasIdentity && hears;
}
