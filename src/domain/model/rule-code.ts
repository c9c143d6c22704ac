/**
 * A rule of a release or of its stream (bundle format, "Update rules") that holds an activation until
 * a person confirms it.
 */
export type RuleCode =
  | 'rule/from'
  | 'rule/barrier'
  | 'rule/downgrade'
  | 'rule/deadend'
  | 'rule/rollout'
  | 'rule/end-of-life';

/** All that a confirmation or running containers may override. */
export const RULE_CODES: readonly RuleCode[] = [
  'rule/from',
  'rule/barrier',
  'rule/downgrade',
  'rule/deadend',
  'rule/rollout',
  'rule/end-of-life',
];
