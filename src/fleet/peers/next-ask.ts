import type { NodeStatus, ReleaseStatus } from '../../domain/fleet/node-status.ts';
import type { ActivationHold } from '../../domain/gates/gates.ts';
import type { Phase } from '../../domain/model/phase.ts';
import type { ImageReason, MediaReason, Reason } from '../../domain/model/reason.ts';

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

/** Reasons of kept releases that mean: images are lacking, and another node may give them. */
const LACKING: ReadonlySet<string> = new Set<(ImageReason | MediaReason)['code']>([
  'engine/image-missing',
  'engine/image-damaged',
  'engine/no-base',
  'engine/needs-copy',
  'engine/no-source',
  'engine/offline',
  'bundle/blob-missing',
  'media/peer-waited-for',
  'media/looking',
  'media/reading',
]);

/** Reasons that a person ends, or that end on this node. No other node can end them. */
const OWN_REASONS: ReadonlySet<string> = new Set<ActivationHold['code'] | Reason['code']>([
  'engine/manual',
  'engine/denied',
  'engine/cancelled',
  'engine/below-floor',
  'engine/floor-unknown',
  'engine/tag-of-other-stream',
  'engine/rolled-back',
  'engine/no-space',
  'rule/deadend',
  'rule/downgrade',
  'rule/end-of-life',
  'runtime/unreachable',
  'runtime/unlisted',
  'runtime/version',
]);

/**
 * Whether a node lacks images, or waits for others to be ready. A release that waits for its window
 * counts: how long others are silent is measured before the window opens.
 *
 * @param isOrdered `fleet.activate` is `"ordered"`
 */
export function isNeedy(status: NodeStatus | undefined, isOrdered: boolean): boolean {
  return (status?.releases ?? []).some((release) => needsOthers(release, isOrdered));
}

function needsOthers({ phase, reason = '' }: ReleaseStatus, isOrdered: boolean): boolean {
  if (KEPT.has(phase)) return LACKING.has(reason);
  if (phase === 'preloading') return true;
  if (OWN_REASONS.has(reason) || reason.startsWith('trust/')) return false;
  return phase === 'held' || (phase === 'ready' && isOrdered);
}
