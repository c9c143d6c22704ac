import type { Policy } from '../../settings/settings.ts';
import type { Soak } from '../../state/release-record.ts';

/** Checks of the containers further apart than this leave a time without observation. */
const LONGEST_GAP_MS = 180_000;
/** The shortest time between two records: each one is a write to the disk. */
const STEP_MS = 60_000;

export interface UnseenVerdict {
  readonly soak: Soak;
  /** Whether it counts as proven. */
  readonly isDone: boolean;
  /** When it will be proven or recorded next, as milliseconds from now; undefined: never. */
  readonly dueInMs: number | undefined;
}

/**
 * Counts how long a release has been activated without evidence (`lifecycle.without_evidence`;
 * docs/decisions/proof.md, "Without evidence"). Only time between two observations of the
 * containers counts. It starts again while another release of the stream runs.
 *
 * @param soak the clock after this observation
 * @param before the clock as it is recorded
 */
export function unseenAfter(
  soak: Soak,
  before: Soak | undefined,
  { uptimeMs, isOtherRunning }: { readonly uptimeMs: number; readonly isOtherRunning: boolean },
  { without_evidence: neededMs, require }: Pick<Policy['lifecycle'], 'without_evidence' | 'require'>,
): UnseenVerdict {
  if (neededMs === 'keep' || soak.components.length > 0 || require.length > 0 || isOtherRunning) {
    return { soak, isDone: false, dueInMs: undefined };
  }
  const known = before?.activatedAt === soak.activatedAt ? before.unseen : undefined;
  const { totalMs, atMs } = known ?? { totalMs: 0, atMs: uptimeMs };
  const sinceMs = uptimeMs - atMs;
  const isGap = before?.bootId !== soak.bootId || sinceMs < 0 || sinceMs > LONGEST_GAP_MS;
  const now = { totalMs: totalMs + (isGap ? 0 : sinceMs), atMs: uptimeMs };
  const leftMs = Math.max(0, neededMs - now.totalMs);
  const stepMs = Math.min(STEP_MS, neededMs);
  const isDone = leftMs === 0;
  const unseen = known !== undefined && !isGap && !isDone && sinceMs < stepMs ? known : now;
  return { soak: { ...soak, unseen }, isDone, dueInMs: Math.max(1, Math.min(leftMs, stepMs)) };
}
