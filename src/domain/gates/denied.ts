import { placeIn } from '../path/read-paths.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

/**
 * A release that was rolled back on this node is not activated again by itself. A person who asks
 * for it lifts that.
 */
export function denied({
  bundle,
  path,
}: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<Hold<'engine/denied', Record<never, never>>> {
  if (placeIn(path, bundle).isDenied !== true) return PASS;
  return { kind: 'hold', hold: { code: 'engine/denied', data: {}, releasedBy: 'person' } };
}
