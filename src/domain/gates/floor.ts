import { isAboveFloor, sequenceOf } from '../adoption/floors.ts';
import { placeIn } from '../path/read-paths.ts';
import { isRetired } from '../release/recorded-phase.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { isAutomatic } from './strategy.ts';

type FloorHold =
  | Hold<'engine/floor-unknown', { readonly stream: string }>
  | Hold<'engine/below-floor', { readonly stream: string; readonly sequence: number; readonly floor: number }>;

/**
 * A release that would be activated without being asked for is not, when a newer one of its stream
 * was activated here before, or when nobody knows any more which ones were. A person may ask for
 * it; and with `update.allow_downgrade` one that came later than what is activated is let pass.
 */
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
