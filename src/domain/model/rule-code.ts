/**
 * What holds the activation of a release until a person confirms it: a rule of the release or of
 * its stream (bundle format, "Update rules"), a window of the node, or a clock by which these can't
 * be judged.
 */
export type RuleCode =
  | 'rule/from'
  | 'rule/barrier'
  | 'rule/downgrade'
  | 'rule/deadend'
  | 'rule/rollout'
  | 'rule/end-of-life'
  | 'window'
  | 'clock';

/** All that a confirmation or running containers may override. */
export const RULE_CODES: readonly RuleCode[] = [
  'rule/from',
  'rule/barrier',
  'rule/downgrade',
  'rule/deadend',
  'rule/rollout',
  'rule/end-of-life',
  'window',
  'clock',
];
