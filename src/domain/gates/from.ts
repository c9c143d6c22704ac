import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { ruleInForce } from './rule.ts';

/**
 * Rule `from`: the releases from which this one may be applied. stickpin can't check it yet, so a
 * person decides.
 */
export function from({
  bundle,
}: Pick<GateContext, 'bundle'>): GateVerdict<Hold<'rule/from', { readonly from: string }>> {
  const rule = ruleInForce(bundle, 'from', 'rule/from');
  if (rule === undefined) return PASS;
  return { kind: 'hold', hold: { code: 'rule/from', data: { from: rule }, releasedBy: 'person' } };
}
