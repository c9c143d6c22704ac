/** A rule of a payload (bundle format, `update`) that holds the activation of its own release. */
export type RuleCode = 'rule/from' | 'rule/rollout' | 'rule/end-of-life';

/** All that a confirmation or running containers may override. */
export const RULE_CODES: readonly RuleCode[] = ['rule/from', 'rule/rollout', 'rule/end-of-life'];
