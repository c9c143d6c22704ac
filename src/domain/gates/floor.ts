import { isAboveFloor } from '../adoption/floors.ts';
import { isRetired } from '../release/recorded-phase.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { isImmediate } from './schedule.ts';

type FloorHold =
  | Hold<'engine/floor-unknown', { readonly stream: string }>
  | Hold<'engine/below-floor', { readonly stream: string; readonly sequence: number; readonly floor: number }>;

/**
 * A release that would be activated without being asked for is not, when a newer one of its stream
 * was activated here before, or when nobody knows any more which ones were. A person may ask for
 * it.
 */
export function floor({ bundle, floors }: Pick<GateContext, 'bundle' | 'floors'>): GateVerdict<FloorHold> {
  const { payload, activationRequestedAt, activatedAt } = bundle;
  const isAutomatic = isImmediate(bundle) && activationRequestedAt === undefined && activatedAt === undefined;
  if (!isAutomatic || isRetired(bundle) || isAboveFloor(bundle, floors)) return PASS;
  const stream = payload.name;
  const least = floors.sequences.get(stream);
  if (least === undefined) {
    return { kind: 'hold', hold: { code: 'engine/floor-unknown', data: { stream }, releasedBy: 'person' } };
  }
  const data = { stream, sequence: payload.sequence, floor: least };
  return { kind: 'hold', hold: { code: 'engine/below-floor', data, releasedBy: 'person' } };
}
