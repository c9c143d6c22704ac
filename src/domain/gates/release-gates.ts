import { isAboveFloor, sequenceOf } from '../adoption/floors.ts';
import { placeIn } from '../path/read-paths.ts';
import type { PathRelease } from '../path/stream-path.ts';
import { isRetired } from '../release/recorded-phase.ts';
import { isWaiting } from '../state/memory.ts';
import type { StoredBundle } from '../state/state.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { isAutomatic } from './timing-gates.ts';

export function trust({
  withdrawn,
}: Pick<GateContext, 'withdrawn'>): GateVerdict<Hold<'trust/withdrawn', { readonly reason: string }>> {
  if (withdrawn === undefined) return PASS;
  return { kind: 'hold', hold: { code: 'trust/withdrawn', data: { reason: withdrawn }, releasedBy: 'person' } };
}

/** A release with a cancelled preload needs all its images. `absent`: number of missing images. */
export function cancellation({
  bundle,
  absentImages,
}: Pick<GateContext, 'bundle' | 'absentImages'>): GateVerdict<Hold<'engine/cancelled', { readonly absent: number }>> {
  if (bundle.cancelled === undefined || absentImages === 0) return PASS;
  const data = { absent: absentImages };
  return { kind: 'hold', hold: { code: 'engine/cancelled', data, releasedBy: 'person', keepsDue: true } };
}

export function denied({
  bundle,
  path,
}: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<Hold<'engine/denied', Record<never, never>>> {
  if (placeIn(path, bundle).isDenied !== true) return PASS;
  return { kind: 'hold', hold: { code: 'engine/denied', data: {}, releasedBy: 'person' } };
}

type FloorHold =
  | Hold<'engine/floor-unknown', { readonly stream: string }>
  | Hold<'engine/below-floor', { readonly stream: string; readonly sequence: number; readonly floor: number }>;

/** A step below the floor needs a request, or `update.allow_downgrade` for a later release. */
export function floor({
  bundle,
  policy,
  floors,
  path,
}: Pick<GateContext, 'bundle' | 'policy' | 'floors' | 'path'>): GateVerdict<FloorHold> {
  const { payload, activationRequestedAt, activatedAt } = bundle;
  const isUnasked = isAutomatic(bundle, policy) && activationRequestedAt === undefined && activatedAt === undefined;
  if (!isUnasked || isRetired(bundle) || isAboveFloor(bundle, floors)) return PASS;
  const stream = payload.name;
  const least = floors.sequences.get(stream);
  if (least === undefined || floors.doubted?.has(stream) === true) {
    return { kind: 'hold', hold: { code: 'engine/floor-unknown', data: { stream }, releasedBy: 'person' } };
  }
  if (path.allowDowngrade && placeIn(path, bundle).isLate === true) return PASS;
  const data = { stream, sequence: sequenceOf(bundle), floor: least };
  return { kind: 'hold', hold: { code: 'engine/below-floor', data, releasedBy: 'person' } };
}

/** Of several possible releases the highest is activated. `next`: its version. */
export function order(
  bundle: StoredBundle,
  next: PathRelease | undefined,
): GateVerdict<Hold<'engine/not-next', { readonly next: string }>> {
  if (next === undefined || next.id === bundle.bundleId) return PASS;
  return { kind: 'hold', hold: { code: 'engine/not-next', data: { next: next.version }, releasedBy: 'event' } };
}

type RetryHold = Hold<'engine/activation-failed', { readonly attempts: number; readonly reason: string }>;

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
    : { kind: 'hold', hold: { ...hold, releasedBy: 'time', checkAgainAt: retryAt } };
}
