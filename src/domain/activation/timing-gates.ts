import { defined } from '../../platform/defined.ts';
import type { NodeFacts } from '../model/machine.ts';
import { isTimeZone, nextOpenings, type Opening, UTC } from '../model/windows.ts';
import { hasBegun } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import type { Observed, StoredBundle } from '../state/state.ts';
import { type GateContext, held, PASS, type RuleContext } from './gate.ts';
import { ruleInForce } from './rules.ts';

/** Bundle format, `schedule`. The settings `update.strategy` and `fleet.activate` also count. */
export function schedule({ bundle, policy }: Pick<GateContext, 'bundle' | 'policy'>) {
  if (hasBegun(bundle)) return PASS;
  const by = manualBy(bundle, policy);
  if (by === undefined || bundle.activationRequestedAt !== undefined || bundle.activatedAt !== undefined) return PASS;
  return held('engine/manual', { by }, 'person');
}

function manualBy(
  { payload }: Pick<StoredBundle, 'payload'>,
  { update, fleet }: Pick<Policy, 'update' | 'fleet'>,
): 'release' | 'node' | 'fleet' | undefined {
  if (payload.schedule === 'manual') return 'release';
  if (update.strategy === 'manual') return 'node';
  return fleet.enabled && fleet.activate === 'manual' ? 'fleet' : undefined;
}

export function isAutomatic(bundle: Pick<StoredBundle, 'payload'>, policy: Pick<Policy, 'update' | 'fleet'>): boolean {
  return manualBy(bundle, policy) === undefined;
}

/** Only windows call it: time zone data takes several MiB of memory. */
function zoneOf({ update }: Policy, { timeZone }: NodeFacts): string {
  if (update.time_zone !== 'localtime') return update.time_zone;
  return isTimeZone(timeZone) ? timeZone : UTC;
}

/** A wrong clock holds a release whose other gates depend on the time, and skips those gates. */
export function clock({ bundle, policy, clockFault }: Pick<RuleContext, 'bundle' | 'policy' | 'clockFault'>) {
  if (clockFault === undefined || bundle.activationOverrides?.includes('clock')) return PASS;
  const timed = {
    hasWindow: awaitsWindow({ bundle, policy }),
    hasRollout: ruleInForce(bundle, 'rollout', 'rule/rollout') !== undefined,
    hasEndOfLife: ruleInForce(bundle, 'endOfLife', 'rule/end-of-life') !== undefined,
  };
  if (!Object.values(timed).includes(true)) return PASS;
  const { kind, least } = clockFault;
  return held('clock', { kind, least, ...timed }, 'event', { checkAgainAt: least });
}

/**
 * Setting `update.strategy = "window"`. Requested and begun activations don't wait. Times are
 * milliseconds since the epoch, and absent when no window opens within weeks.
 */
export function window({ bundle, policy, now, facts, clockFault, clockSynchronised }: RuleContext) {
  if (!awaitsWindow({ bundle, policy }) || clockFault !== undefined) return PASS;
  const timeZone = zoneOf(policy, facts);
  const [next] = nextOpenings(policy.update.windows, timeZone, now, 1);
  if (next !== undefined && next.opensAt === undefined) {
    return { kind: 'pass', ...defined({ checkAgainAt: next.closesAt }) } as const;
  }
  const { opensAt, closesAt } = next ?? {};
  const data = defined({ opensAt, closesAt, timeZone, isClockUnsure: !clockSynchronised });
  return held('window', data, 'time', defined({ checkAgainAt: opensAt }));
}

function awaitsWindow({ bundle, policy }: Pick<GateContext, 'bundle' | 'policy'>): boolean {
  const { activationRequestedAt, activatedAt } = bundle;
  const isOpen = activationRequestedAt === undefined && activatedAt === undefined && !hasBegun(bundle);
  return policy.update.strategy === 'window' && isOpen;
}

export interface NextWindows {
  readonly timeZone: string;
  readonly openings: readonly Opening[];
}

const SHOWN_WINDOWS = 3;

/** @returns undefined with another `update.strategy` */
export function nextWindows(policy: Policy, { now, facts }: Observed): NextWindows | undefined {
  if (policy.update.strategy !== 'window') return undefined;
  const timeZone = zoneOf(policy, facts);
  return { timeZone, openings: nextOpenings(policy.update.windows, timeZone, now, SHOWN_WINDOWS) };
}
