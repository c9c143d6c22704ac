import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { ruleInForce } from './rule.ts';

type EndOfLifeHold = Hold<'rule/end-of-life', { readonly endOfLife: string; readonly isClockUnsure: boolean }>;

/** Rule `endOfLife`: a release that is past it is activated only when a person confirms that. */
export function endOfLife({
  bundle,
  ruleTime,
  clockSynchronised,
}: Pick<GateContext, 'bundle' | 'ruleTime' | 'clockSynchronised'>): GateVerdict<EndOfLifeHold> {
  const rule = ruleInForce(bundle, 'endOfLife', 'rule/end-of-life');
  if (rule === undefined) return PASS;
  const end = Date.parse(rule);
  if (end > ruleTime) return { kind: 'pass', lookAgainAt: end };
  const data = { endOfLife: rule, isClockUnsure: clockSynchronised === false };
  return { kind: 'hold', hold: { code: 'rule/end-of-life', data, releasedBy: 'person' } };
}
