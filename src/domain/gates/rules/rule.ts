import type { UpdateRules } from '../../model/bundle.ts';
import type { RuleCode } from '../../model/rule-code.ts';
import { hasBegun } from '../../release/recorded-phase.ts';
import type { StoredBundle } from '../../state/state.ts';

/**
 * A rule of a payload (bundle format, `update`), if it can hold the activation of its own release.
 * It can't when the release was activated here before, so that there is always a way back, nor when
 * the request for the activation confirmed it. A rollout says when to begin, as a window does.
 */
export function ruleInForce<Name extends keyof UpdateRules>(
  bundle: StoredBundle,
  name: Name,
  code: RuleCode,
): UpdateRules[Name] | undefined {
  return isRuleInForce(bundle, code) ? bundle.payload.update?.[name] : undefined;
}

/** Whether a rule, of the release itself or of its stream, can hold its activation. */
export function isRuleInForce(bundle: StoredBundle, code: RuleCode): boolean {
  const { activatedAt, activationOverrides = [] } = bundle;
  if (hasBegun(bundle) && code === 'rule/rollout') return false;
  const isConfirmed =
    activationOverrides.includes(code) || (TIME_RULES.includes(code) && activationOverrides.includes('clock'));
  return activatedAt === undefined && !isConfirmed;
}

/** Rules that are judged by the clock. Who confirmed a wrong clock has confirmed them with it. */
const TIME_RULES: readonly RuleCode[] = ['rule/rollout', 'rule/end-of-life'];
