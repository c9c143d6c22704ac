import { fromBlock } from '../../path/edges.ts';
import { placeIn } from '../../path/read-paths.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';
import { isRuleInForce } from './rule.ts';
import { awaitedOnPath } from './way-there.ts';

/**
 * `current`: the version from which the release would be applied. `isUnreadable`: it can't be
 * compared with the range.
 */
type FromHold = Hold<
  'rule/from',
  { readonly from: string; readonly current: string; readonly isUnreadable: boolean; readonly after?: string }
>;

/** Rule `from`: the releases from which this one may be applied. */
export function from({ bundle, path }: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<FromHold> {
  const block = isRuleInForce(bundle, 'rule/from') ? fromBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, from: range, current, isUnreadable } = block;
  const { data, releasedBy } = awaitedOnPath(path, bundle);
  return { kind: 'hold', hold: { code, data: { from: range, current, isUnreadable, ...data }, releasedBy } };
}
