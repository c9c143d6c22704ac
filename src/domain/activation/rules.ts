import type { UpdateRules } from '../model/bundle.ts';
import type { RuleCode } from '../model/reason.ts';
import { isThrottled, turnOf, type Wariness, warinessOf } from '../model/rollout.ts';
import { hasBegun } from '../release/recorded-phase.ts';
import type { StoredBundle } from '../state/state.ts';
import { type GateContext, type GateVerdict, type Hold, PASS, type TimedContext } from './gate.ts';
import { type PlannedPath, placeIn } from './read-paths.ts';
import { type BlockOf, barrierBlock, deadendBlock, downgradeBlock, fromBlock } from './stream-path.ts';

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

/** Rules that depend on the clock. An override of a wrong clock includes them. */
const TIME_RULES: readonly RuleCode[] = ['rule/rollout', 'rule/end-of-life'];

type FromHold = Hold<
  'rule/from',
  { readonly from: string; readonly current: string; readonly isUnreadable: boolean; readonly after?: string }
>;

export function from({ bundle, path }: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<FromHold> {
  const block = isRuleInForce(bundle, 'rule/from') ? fromBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, from: range, current, isUnreadable } = block;
  const { data, releasedBy } = awaitedOnPath(path, bundle);
  return { kind: 'hold', hold: { code, data: { from: range, current, isUnreadable, ...data }, releasedBy } };
}

interface AwaitedOnPath {
  /** The release before it; absent when its turn does not come. */
  readonly after?: string;
}

/** Whether the turn of a release comes automatically, once the releases before it are proven. */
function awaitedOnPath(
  { route }: PlannedPath,
  { bundleId }: StoredBundle,
): { readonly data: AwaitedOnPath; readonly releasedBy: 'person' | 'event' } {
  const at = route.findIndex(({ id }) => id === bundleId);
  const before = route[at - 1];
  return before === undefined
    ? { data: {}, releasedBy: 'person' }
    : { data: { after: before.version }, releasedBy: 'event' };
}

type BarrierHold = Hold<
  'rule/barrier',
  {
    readonly barrier: string;
    readonly reason: string;
    readonly lacks: BlockOf<'rule/barrier'>['lacks'];
    readonly after?: string;
  }
>;

/** A barrier before this release must have proven itself first. */
export function barrier({ bundle, path }: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<BarrierHold> {
  const block = isRuleInForce(bundle, 'rule/barrier') ? barrierBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...said } = block;
  const { data, releasedBy } = awaitedOnPath(path, bundle);
  // The present release is the barrier: only its proof is missing.
  const endedBy = said.lacks === 'proof' ? 'event' : releasedBy;
  return { kind: 'hold', hold: { code, data: { ...said, ...data }, releasedBy: endedBy } };
}

type DowngradeHold = Hold<'rule/downgrade', { readonly current: string; readonly by: 'version' | 'sequence' }>;

/** A step back needs `update.allow_downgrade` or an override. */
export function downgrade({ bundle, path }: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<DowngradeHold> {
  const block = isRuleInForce(bundle, 'rule/downgrade') ? downgradeBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...data } = block;
  return { kind: 'hold', hold: { code, data, releasedBy: 'person' } };
}

type DeadendHold = Hold<'rule/deadend', { readonly current: string; readonly reason: string; readonly saidBy: string }>;

export function deadend({ bundle, path }: Pick<GateContext, 'bundle' | 'path'>): GateVerdict<DeadendHold> {
  const block = isRuleInForce(bundle, 'rule/deadend') ? deadendBlock(path, placeIn(path, bundle)) : undefined;
  if (block === undefined) return PASS;
  const { code, ...data } = block;
  return { kind: 'hold', hold: { code, data, releasedBy: 'person' } };
}

/** `turn`: milliseconds since the epoch; absent: never. `share`: of the nodes, 0 to 1. */
type RolloutHold = Hold<
  'rule/rollout',
  {
    readonly turn?: number;
    readonly share: number;
    readonly wariness: number;
    readonly source: Wariness['source'];
    readonly isClockUnsure: boolean;
  }
>;

/** Bundle format, "Rollout": waits while the node's wariness is greater than the throttle. */
export function rollout({
  bundle,
  policy,
  now,
  facts,
  clockFault,
  clockSynchronised,
}: TimedContext): GateVerdict<RolloutHold> {
  const rule = ruleInForce(bundle, 'rollout', 'rule/rollout');
  if (rule === undefined || clockFault !== undefined) return PASS;
  const wariness = warinessOf(bundle.payload.name, policy.update.rollout_wariness, facts.machineId);
  if (!isThrottled(rule, wariness.value, now)) return PASS;
  const data = {
    share: rule.startPercentage ?? 0,
    wariness: wariness.value,
    source: wariness.source,
    isClockUnsure: !clockSynchronised,
  };
  const turn = turnOf(rule, wariness.value);
  if (turn === undefined) return { kind: 'hold', hold: { code: 'rule/rollout', data, releasedBy: 'person' } };
  const hold = { code: 'rule/rollout', data: { ...data, turn }, releasedBy: 'time', checkAgainAt: turn } as const;
  return { kind: 'hold', hold };
}

type EndOfLifeHold = Hold<'rule/end-of-life', { readonly endOfLife: string; readonly isClockUnsure: boolean }>;

/** A release past its end needs `update.allow_end_of_life` or an override. */
export function endOfLife({
  bundle,
  path,
  now,
  clockFault,
  clockSynchronised,
}: Pick<GateContext, 'bundle' | 'path' | 'now' | 'clockFault' | 'clockSynchronised'>): GateVerdict<EndOfLifeHold> {
  const rule = ruleInForce(bundle, 'endOfLife', 'rule/end-of-life');
  if (rule === undefined || path.allowEndOfLife || clockFault !== undefined) return PASS;
  const end = Date.parse(rule);
  if (end > now) return { kind: 'pass', checkAgainAt: end };
  const data = { endOfLife: rule, isClockUnsure: !clockSynchronised };
  return { kind: 'hold', hold: { code: 'rule/end-of-life', data, releasedBy: 'person' } };
}
