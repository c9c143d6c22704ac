import type { ClockFault } from '../time/clock-fault.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { ruleInForce } from './rules/rule.ts';
import { awaitsWindow } from './window.ts';

/** Times are milliseconds since the epoch. */
type ClockHold = Hold<
  'clock',
  {
    readonly kind: ClockFault['kind'];
    /** The time that must have passed already. */
    readonly least: number;
    /** Which of them can't be judged by such a clock. */
    readonly hasWindow: boolean;
    readonly hasRollout: boolean;
    readonly hasEndOfLife: boolean;
  }
>;

/**
 * A clock that can't be right holds a release of which something depends on the time: a window, its
 * rollout, or its end of life. These are not judged then.
 */
export function clock({
  bundle,
  policy,
  clockFault,
}: Pick<GateContext, 'bundle' | 'policy' | 'clockFault'>): GateVerdict<ClockHold> {
  if (clockFault === undefined || bundle.activationOverrides?.includes('clock')) return PASS;
  const timed = {
    hasWindow: awaitsWindow({ bundle, policy }),
    hasRollout: ruleInForce(bundle, 'rollout', 'rule/rollout') !== undefined,
    hasEndOfLife: ruleInForce(bundle, 'endOfLife', 'rule/end-of-life') !== undefined,
  };
  if (!Object.values(timed).includes(true)) return PASS;
  const { kind, least } = clockFault;
  const data = { kind, least, ...timed };
  return { kind: 'hold', hold: { code: 'clock', data, releasedBy: 'event', lookAgainAt: least } };
}
