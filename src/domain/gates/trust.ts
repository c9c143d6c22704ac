import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

/**
 * A release that is not trusted any more, or that waits for its approval, is not activated.
 * `reason`: code of the withdrawal.
 */
export function trust({
  withdrawn,
}: Pick<GateContext, 'withdrawn'>): GateVerdict<Hold<'trust/withdrawn', { readonly reason: string }>> {
  if (withdrawn === undefined) return PASS;
  return { kind: 'hold', hold: { code: 'trust/withdrawn', data: { reason: withdrawn }, releasedBy: 'person' } };
}
