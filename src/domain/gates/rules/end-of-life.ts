import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';
import { ruleInForce } from './rule.ts';

type EndOfLifeHold = Hold<'rule/end-of-life', { readonly endOfLife: string; readonly isClockUnsure: boolean }>;

/**
 * Rule `endOfLife`: a release that is past it is activated only with `update.allow_end_of_life`, or
 * when a person confirms it.
 */
export function endOfLife({
  bundle,
  path,
  now,
  clockFault,
  clockSynchronised,
}: Pick<GateContext, 'bundle' | 'path' | 'now' | 'clockFault' | 'clockSynchronised'>): GateVerdict<EndOfLifeHold> {
  const rule = ruleInForce(bundle, 'endOfLife', 'rule/end-of-life');
  if (rule === undefined || path.allowEndOfLife || clockFault !== undefined) return PASS;
  const end = Date.parse(rule);
  if (end > now) return { kind: 'pass', lookAgainAt: end };
  const data = { endOfLife: rule, isClockUnsure: !clockSynchronised };
  return { kind: 'hold', hold: { code: 'rule/end-of-life', data, releasedBy: 'person' } };
}
