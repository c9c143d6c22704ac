import { type BlockOf, barrierBlock } from '../../path/edges.ts';
import { placeIn } from '../../path/read-paths.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from '../gate.ts';
import { isRuleInForce } from './rule.ts';
import { awaitedOnPath } from './way-there.ts';

/** `barrier`: its version. `lacks`: what must happen to it first. */
type BarrierHold = Hold<
  'rule/barrier',
  {
    readonly barrier: string;
    readonly reason: string;
    readonly lacks: BlockOf<'rule/barrier'>['lacks'];
    readonly after?: string;
  }
>;

/**
 * A barrier between the present release and this one: it must have been activated and have proven
 * itself first.
 */
export function barrier({ bundle, path }: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<BarrierHold> {
  const block = isRuleInForce(bundle, 'rule/barrier') ? barrierBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...said } = block;
  const { data, releasedBy } = awaitedOnPath(path, bundle);
  // The present release is the barrier: nothing but its proof is missing.
  const endedBy = said.lacks === 'proof' ? 'event' : releasedBy;
  return { kind: 'hold', hold: { code, data: { ...said, ...data }, releasedBy: endedBy } };
}
