import { defined } from '../../platform/defined.ts';
import type { UpdateRules } from '../model/bundle.ts';
import type { RuleCode } from '../model/reason.ts';
import { isThrottled, turnOf, warinessOf } from '../model/rollout.ts';
import { hasBegun } from '../release/recorded-phase.ts';
import type { StoredBundle } from '../state/state.ts';
import { held, PASS, type RuleContext } from './gate.ts';
import { type PlannedPath, placeIn } from './read-paths.ts';
import { barrierBlock, deadendBlock, downgradeBlock, fromBlock } from './stream-path.ts';

/**
 * A rule (bundle format, `update`) that may hold its release. A release that was activated before
 * is never held, so that there is always a way back.
 */
export function ruleInForce<Name extends keyof UpdateRules>(
  bundle: StoredBundle,
  name: Name,
  code: RuleCode,
): UpdateRules[Name] | undefined {
  return isRuleInForce(bundle, code) ? bundle.payload.update?.[name] : undefined;
}

function isRuleInForce(bundle: StoredBundle, code: RuleCode): boolean {
  const { activatedAt, activationOverrides = [] } = bundle;
  if (hasBegun(bundle) && code === 'rule/rollout') return false;
  const isConfirmed =
    activationOverrides.includes(code) || (TIME_RULES.includes(code) && activationOverrides.includes('clock'));
  return activatedAt === undefined && !isConfirmed;
}

/** These rules depend on the clock. An override of a wrong clock includes them. */
const TIME_RULES: readonly RuleCode[] = ['rule/rollout', 'rule/end-of-life'];

/** `after` is the release before this one. Absent when this release does not get a turn. */
export function from({ bundle, path }: RuleContext) {
  const block = isRuleInForce(bundle, 'rule/from') ? fromBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...data } = block;
  const after = versionBefore(path, bundle);
  return held(code, defined({ ...data, after }), after === undefined ? 'person' : 'event');
}

/** The release activates automatically once this version is proven. */
function versionBefore({ route }: PlannedPath, { bundleId }: StoredBundle): string | undefined {
  return route[route.findIndex(({ id }) => id === bundleId) - 1]?.version;
}

/** A barrier before this release must have proven itself first. */
export function barrier({ bundle, path }: Pick<RuleContext, 'bundle' | 'path'>) {
  const block = isRuleInForce(bundle, 'rule/barrier') ? barrierBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...data } = block;
  const after = versionBefore(path, bundle);
  // The present release is the barrier, and only its proof is missing.
  const endsByItself = data.lacks === 'proof' || after !== undefined;
  return held(code, defined({ ...data, after }), endsByItself ? 'event' : 'person');
}

/** A step back needs `update.allow_downgrade` or an override. */
export function downgrade({ bundle, path }: RuleContext) {
  const block = isRuleInForce(bundle, 'rule/downgrade') ? downgradeBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...data } = block;
  return held(code, data, 'person');
}

export function deadend({ bundle, path }: RuleContext) {
  const block = isRuleInForce(bundle, 'rule/deadend') ? deadendBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...data } = block;
  return held(code, data, 'person');
}

/**
 * Bundle format, "Rollout". A release waits while the node's wariness is greater than the throttle.
 * `turn` is in milliseconds since the epoch, and absent means never. `share` is the share of the
 * nodes, 0 to 1.
 */
export function rollout({ bundle, policy, now, facts, clockFault, clockSynchronised }: RuleContext) {
  const rule = ruleInForce(bundle, 'rollout', 'rule/rollout');
  if (rule === undefined || clockFault !== undefined) return PASS;
  const { value: wariness, source } = warinessOf(bundle.payload.name, policy.update.rollout_wariness, facts.machineId);
  if (!isThrottled(rule, wariness, now)) return PASS;
  const turn = turnOf(rule, wariness);
  const share = rule.startPercentage ?? 0;
  const data = defined({ turn, share, wariness, source, isClockUnsure: !clockSynchronised });
  return held('rule/rollout', data, turn === undefined ? 'person' : 'time', defined({ checkAgainAt: turn }));
}

/** A release past its end needs `update.allow_end_of_life` or an override. */
export function endOfLife({ bundle, path, now, clockFault, clockSynchronised }: RuleContext) {
  const rule = ruleInForce(bundle, 'endOfLife', 'rule/end-of-life');
  if (rule === undefined || path.allowEndOfLife || clockFault !== undefined) return PASS;
  const end = Date.parse(rule);
  if (end > now) return { kind: 'pass', checkAgainAt: end } as const;
  return held('rule/end-of-life', { endOfLife: rule, isClockUnsure: !clockSynchronised }, 'person');
}
