import { deadendBlock } from '../../path/edges.ts';
import { placeIn } from '../../path/read-paths.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';
import { isRuleInForce } from './rule.ts';

/** `current`: the dead end. `saidBy`: the bundle that calls it one. */
type DeadendHold = Hold<'rule/deadend', { readonly current: string; readonly reason: string; readonly saidBy: string }>;

/** The present release is a dead end: no release updates from it. */
export function deadend({ bundle, path }: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<DeadendHold> {
  const block = isRuleInForce(bundle, 'rule/deadend') ? deadendBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...data } = block;
  return { kind: 'hold', hold: { code, data, releasedBy: 'person' } };
}
