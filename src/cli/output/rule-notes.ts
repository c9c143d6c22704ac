import type { UpdateRules } from '../../domain/model/bundle.ts';
import type { BundleReport } from '../../domain/report/report.ts';
import type { ShownRule } from '../../domain/report/shown-rules.ts';

/** What `from`, `rollout` and `endOfLife` come to on a node today. */
export const HOLD_NOTE =
  "nodes can't enforce 'from' and 'rollout' yet: a release with 'from', with a rollout that is not over, or past its end of life becomes ready, and waits for 'stickpin activate' with a confirmation";

/** What whoever makes a bundle with such rules should know. */
export function ruleWarnings({ from, rollout, endOfLife, barrier, deadend }: UpdateRules): readonly string[] {
  const holds = [from, rollout, endOfLife].some((rule) => rule !== undefined);
  const ofOthers = [...(barrier === undefined ? [] : ['--barrier']), ...(deadend === undefined ? [] : ['--deadend'])];
  return [
    ...(holds ? [HOLD_NOTE] : []),
    ...ofOthers.map((option) => `${option} is not enforced yet: nodes show it, and hold no release because of it`),
  ];
}

const NAMES: Readonly<Record<ShownRule['rule'], string>> = {
  from: 'from',
  rollout: 'rollout',
  endOfLife: 'end of life',
  barrier: 'barrier',
  deadend: 'dead end',
};

const EFFECTS: Readonly<Record<ShownRule['effect'], string>> = {
  'holds-activation': 'holds its activation while it applies',
  'not-enforced-yet': 'not enforced yet',
};

/** What people call a rule. */
export function ruleName({ rule }: Pick<ShownRule, 'rule'>): string {
  return NAMES[rule];
}

/** The value of a rule, with what it does today. */
export function ruleText({ value, effect }: Omit<ShownRule, 'rule'>): string {
  return `${value} (${EFFECTS[effect]})`;
}

/** What another bundle says about a release, with what that does today. */
export function adviceOf({ deadend, barrier, reason, from, effect }: NonNullable<BundleReport['advisory']>): string {
  const what = [...(deadend ? ['dead end'] : []), ...(barrier ? ['barrier'] : [])].join(' and ');
  return what === '' ? `note, says ${from}: ${reason}` : `${what} (${EFFECTS[effect]}), says ${from}: ${reason}`;
}
