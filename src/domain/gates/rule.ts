import type { UpdateRules } from '../model/bundle.ts';
import type { RuleCode } from '../model/rule-code.ts';
import type { StoredBundle } from '../state/state.ts';

/**
 * A rule of a payload (bundle format, `update`), if it can hold the activation of its own release.
 * It can't when the release was activated here before, so that there is always a way back, nor when
 * the request for the activation confirmed it.
 */
export function ruleInForce<Name extends keyof UpdateRules>(
  { payload, activatedAt, activationOverrides = [] }: StoredBundle,
  name: Name,
  code: RuleCode,
): UpdateRules[Name] | undefined {
  return activatedAt !== undefined || activationOverrides.includes(code) ? undefined : payload.update?.[name];
}

/**
 * The time by which rules are judged: as for `expires`, the clock of the node, synchronised or not,
 * but never behind the newest `created` of an adopted bundle. Milliseconds since the epoch.
 */
export function ruleTime(bundles: readonly StoredBundle[], now: number): number {
  return bundles.reduce((latest, { payload }) => Math.max(latest, Date.parse(payload.created) || 0), now);
}
