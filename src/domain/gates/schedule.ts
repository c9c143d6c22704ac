import { hasBegun } from '../release/recorded-phase.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { manualBy } from './strategy.ts';

/**
 * `by`: what asks for a person, the release (`schedule`), the node (`update.strategy`) or the
 * cluster (`fleet.activate`).
 */
type ManualHold = Hold<'engine/manual', { readonly by: 'release' | 'node' | 'fleet' }>;

/**
 * Bundle format, `schedule`, and the settings `update.strategy` and `fleet.activate`: a release is
 * activated when a person asks for it, if one of them is `manual`.
 */
export function schedule({ bundle, policy }: Pick<GateContext, 'bundle' | 'policy'>): GateVerdict<ManualHold> {
  if (hasBegun(bundle)) return PASS;
  const by = manualBy(bundle, policy);
  if (by === undefined || bundle.activationRequestedAt !== undefined || bundle.activatedAt !== undefined) return PASS;
  return { kind: 'hold', hold: { code: 'engine/manual', data: { by }, releasedBy: 'person' } };
}
