import type { Clock } from '../../platform/clock.ts';

/** For how long nodes gave no sign of life while they were asked for one. */
export interface Silence {
  /** A node gave a sign of life. */
  heard(node: string): void;
  /** When a node was heard last, in milliseconds since the epoch; undefined: never since the start. */
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
  return {
    heard: (node) => {
      seen.set(node, clock.now());
      silent.set(node, 0);
    },
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
