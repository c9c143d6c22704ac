import type { UpdateRules } from '../model/bundle.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';
import { ruleInForce } from './rule.ts';

/** `end`: milliseconds since the epoch; absent when only a part of the nodes ever may activate. */
type RolloutHold = Hold<
  'rule/rollout',
  { readonly start: string; readonly end?: number; readonly isClockUnsure: boolean }
>;

/**
 * Rule `rollout`: activations are spread over nodes and time. stickpin can't do that yet, so the
 * release waits until all nodes may activate.
 */
export function rollout({
  bundle,
  ruleTime,
  clockSynchronised,
}: Pick<GateContext, 'bundle' | 'ruleTime' | 'clockSynchronised'>): GateVerdict<RolloutHold> {
  const rule = ruleInForce(bundle, 'rollout', 'rule/rollout');
  if (rule === undefined) return PASS;
  const data = { start: rule.start, isClockUnsure: clockSynchronised === false };
  const end = rolloutEnd(rule);
  if (end === undefined) return { kind: 'hold', hold: { code: 'rule/rollout', data, releasedBy: 'person' } };
  if (end <= ruleTime) return PASS;
  const hold = { code: 'rule/rollout', data: { ...data, end }, releasedBy: 'time', lookAgainAt: end } as const;
  return { kind: 'hold', hold };
}

/** When all nodes may activate; undefined when only a part of them ever may. */
function rolloutEnd({ start, durationMinutes, startPercentage }: NonNullable<UpdateRules['rollout']>) {
  if (durationMinutes === undefined && (startPercentage ?? 100) < 100) return undefined;
  return Date.parse(start) + (durationMinutes ?? 0) * 60_000;
}
