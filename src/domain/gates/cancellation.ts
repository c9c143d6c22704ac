import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

/**
 * A release whose preload was cancelled is activated when its images have come all the same.
 * `absent`: how many are missing.
 */
export function cancellation({
  bundle,
  absentImages,
}: Pick<GateContext, 'bundle' | 'absentImages'>): GateVerdict<Hold<'engine/cancelled', { readonly absent: number }>> {
  if (bundle.cancelled === undefined || absentImages === 0) return PASS;
  const data = { absent: absentImages };
  return { kind: 'hold', hold: { code: 'engine/cancelled', data, releasedBy: 'person', keepsDue: true } };
}
