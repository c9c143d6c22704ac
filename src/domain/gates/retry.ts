import { isWaiting } from '../state/waiting.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

type RetryHold = Hold<'engine/activation-failed', { readonly attempts: number; readonly reason: string }>;

/**
 * An activation that failed is tried again after a pause, or when the media change. `reason`: code
 * of the failure.
 */
export function retry({
  bundle,
  failures,
  now,
}: Pick<GateContext, 'bundle' | 'failures' | 'now'>): GateVerdict<RetryHold> {
  const failed = failures.find(
    (failure) =>
      failure.task.kind === 'activate' && failure.task.bundleId === bundle.bundleId && isWaiting(failure, now),
  );
  if (failed === undefined) return PASS;
  const { attempts, reason, retryAt } = failed;
  const hold = { code: 'engine/activation-failed', data: { attempts, reason: reason.code }, keepsDue: true } as const;
  return retryAt === undefined
    ? { kind: 'hold', hold: { ...hold, releasedBy: 'event' } }
    : { kind: 'hold', hold: { ...hold, releasedBy: 'time', lookAgainAt: retryAt } };
}
