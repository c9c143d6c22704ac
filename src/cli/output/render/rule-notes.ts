import type { BundleReport } from '../../../domain/report/parts/bundle-report.ts';
import type { ShownRule } from '../../../domain/report/parts/shown-rules.ts';

const NAMES: Readonly<Record<ShownRule['rule'], string>> = {
  from: 'from',
  rollout: 'rollout',
  endOfLife: 'end of life',
  barrier: 'barrier',
  deadend: 'dead end',
};

const EFFECTS: Readonly<Record<ShownRule['effect'], string>> = {
  'holds-activation': 'holds its activation while it applies',
  'holds-others': 'holds other releases of its stream',
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
