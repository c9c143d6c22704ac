import type { UpdateRules } from '../model/bundle.ts';
import type { RuleCode } from '../model/rule-code.ts';
import type { StoredBundle } from '../state/state.ts';

/**
 * A rule of a payload (bundle format, `update`), if it can hold the activation of its own release.
 * It can't when the release was activated here before, so that there is always a way back, nor when
 * the request for the activation confirmed it.
 */
export function ruleInForce<Name extends keyof UpdateRules>(
  bundle: StoredBundle,
  name: Name,
  code: RuleCode,
): UpdateRules[Name] | undefined {
  return isRuleInForce(bundle, code) ? bundle.payload.update?.[name] : undefined;
}

/** Whether a rule, of the release itself or of its stream, can hold its activation. */
export function isRuleInForce({ activatedAt, activationOverrides = [] }: StoredBundle, code: RuleCode): boolean {
  return activatedAt === undefined && !activationOverrides.includes(code);
}

/**
 * The time by which rules are judged: as for `expires`, the clock of the node, synchronised or not,
 * but never behind the newest `created` of an adopted bundle. Milliseconds since the epoch.
 */
export function ruleTime(bundles: readonly StoredBundle[], now: number): number {
  return bundles.reduce((latest, { payload }) => Math.max(latest, Date.parse(payload.created) || 0), now);
}
