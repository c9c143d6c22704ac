import { isThrottled, turnOf } from '../../time/throttle.ts';
import { type Wariness, warinessOf } from '../../time/wariness.ts';
import { type GateVerdict, type Hold, PASS, type TimedContext } from '../gate.ts';
import { ruleInForce } from './rule.ts';

/**
 * `turn`: when this node may activate it, in milliseconds since the epoch; absent when that never
 * comes. `share`: of the nodes that may at once, 0 to 1.
 */
type RolloutHold = Hold<
  'rule/rollout',
  {
    readonly turn?: number;
    readonly share: number;
    readonly wariness: number;
    readonly source: Wariness['source'];
    readonly isClockUnsure: boolean;
  }
>;

/**
 * Rule `rollout`: activations are spread over nodes and time. The release is held while the
 * wariness of this node is greater than the throttle (bundle format, "Rollout").
 */
export function rollout({
  bundle,
  policy,
  now,
  facts,
  clockFault,
  clockSynchronised,
}: TimedContext): GateVerdict<RolloutHold> {
  const rule = ruleInForce(bundle, 'rollout', 'rule/rollout');
  if (rule === undefined || clockFault !== undefined) return PASS;
  const wariness = warinessOf(bundle.payload.name, policy.update.rollout_wariness, facts.machineId);
  if (!isThrottled(rule, wariness.value, now)) return PASS;
  const data = {
    share: rule.startPercentage ?? 0,
    wariness: wariness.value,
    source: wariness.source,
    isClockUnsure: !clockSynchronised,
  };
  const turn = turnOf(rule, wariness.value);
  if (turn === undefined) return { kind: 'hold', hold: { code: 'rule/rollout', data, releasedBy: 'person' } };
  const hold = { code: 'rule/rollout', data: { ...data, turn }, releasedBy: 'time', lookAgainAt: turn } as const;
  return { kind: 'hold', hold };
}
