import { downgradeBlock } from '../../path/edges.ts';
import { placeIn } from '../../path/read-paths.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';
import { isRuleInForce } from './rule.ts';

/** `by`: what of it is lower than that of the present release. */
type DowngradeHold = Hold<'rule/downgrade', { readonly current: string; readonly by: 'version' | 'sequence' }>;

/**
 * A release that is older than the present one is activated only with `update.allow_downgrade`, or
 * when a person confirms it.
 */
export function downgrade({ bundle, path }: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<DowngradeHold> {
  const block = isRuleInForce(bundle, 'rule/downgrade') ? downgradeBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...data } = block;
  return { kind: 'hold', hold: { code, data, releasedBy: 'person' } };
}
