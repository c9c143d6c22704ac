import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

/**
 * A release with a cancelled preload is activated only when all its images are present. `absent`:
 * number of missing images.
 */
export function cancellation({
  bundle,
  absentImages,
}: Pick<GateContext, 'bundle' | 'absentImages'>): GateVerdict<Hold<'engine/cancelled', { readonly absent: number }>> {
  if (bundle.cancelled === undefined || absentImages === 0) return PASS;
  const data = { absent: absentImages };
  return { kind: 'hold', hold: { code: 'engine/cancelled', data, releasedBy: 'person', keepsDue: true } };
}
