import type { StoredBundle } from '../state/state.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

/** Bundle format, `schedule`: one that is `manual` is activated when a person asks for it. */
export function schedule({
  bundle,
}: Pick<GateContext, 'bundle'>): GateVerdict<Hold<'engine/manual', Record<never, never>>> {
  if (isImmediate(bundle) || bundle.activationRequestedAt !== undefined || bundle.activatedAt !== undefined)
    return PASS;
  return { kind: 'hold', hold: { code: 'engine/manual', data: {}, releasedBy: 'person' } };
}

/** Whether a release is activated without being asked for. */
export function isImmediate({ payload }: Pick<StoredBundle, 'payload'>): boolean {
  return (payload.schedule ?? 'immediate') === 'immediate';
}
