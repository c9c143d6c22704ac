import type { NodeStatus } from '../../domain/fleet/node-status.ts';
import type { Phase } from '../../domain/model/phase.ts';

/** Pauses after failures and after answers without news, in milliseconds; the last one goes on. */
const PAUSES_MS = [5_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000];

/** How often all peers are asked while this node needs something. */
const NEEDY_MS = 30_000;

/** Images that are there already can be lacking again. */
const KEPT: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven', 'superseded']);

/** What decides when a peer is asked again. */
export interface AskState {
  /** Times in a row that it did not answer, or told nothing new. */
  readonly quiet: number;
  readonly hasFailed: boolean;
  /** The Kubernetes API tells when there is something new. */
  readonly isAnnounced: boolean;
  /** This node needs something. */
  readonly isNeedy: boolean;
}

/** How long a peer is left alone, in milliseconds; infinite when its announcement is waited for. */
export function pauseOf({ quiet, hasFailed, isAnnounced, isNeedy }: AskState): number {
  if (isAnnounced && !hasFailed && !isNeedy) return Number.POSITIVE_INFINITY;
  const pause = PAUSES_MS[Math.min(Math.max(quiet, 1), PAUSES_MS.length) - 1] ?? 0;
  return isNeedy ? Math.min(pause, NEEDY_MS) : pause;
}

/**
 * Whether a node lacks images, or waits for others to be ready.
 *
 * @param isOrdered `fleet.activate` is `"ordered"`
 */
export function isNeedy(status: NodeStatus | undefined, isOrdered: boolean): boolean {
  return (status?.releases ?? []).some(
    ({ phase, reason }) =>
      phase === 'held' ||
      phase === 'preloading' ||
      (phase === 'ready' && isOrdered) ||
      (reason !== undefined && KEPT.has(phase)),
  );
}
