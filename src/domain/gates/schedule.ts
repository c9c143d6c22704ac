import { hasBegun } from '../release/recorded-phase.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { isAutomatic } from './strategy.ts';

/** `by`: what asks for a person, the release (`schedule`) or the node (`update.strategy`). */
type ManualHold = Hold<'engine/manual', { readonly by: 'release' | 'node' }>;

/**
 * Bundle format, `schedule`, and setting `update.strategy`: a release is activated when a person
 * asks for it, if one of them is `manual`.
 */
export function schedule({ bundle, policy }: Pick<GateContext, 'bundle' | 'policy'>): GateVerdict<ManualHold> {
  if (hasBegun(bundle)) return PASS;
  if (isAutomatic(bundle, policy) || bundle.activationRequestedAt !== undefined || bundle.activatedAt !== undefined)
    return PASS;
  const by = bundle.payload.schedule === 'manual' ? 'release' : 'node';
  return { kind: 'hold', hold: { code: 'engine/manual', data: { by }, releasedBy: 'person' } };
}
