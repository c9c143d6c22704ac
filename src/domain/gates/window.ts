import { hasBegun } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import type { Observed } from '../state/state.ts';
import { nextOpenings, type Opening } from '../time/openings.ts';
import { type GateContext, type GateVerdict, type Hold, PASS, type TimedContext } from './gate.ts';
import { zoneOf } from './strategy.ts';

/** Times are milliseconds since the epoch, absent when no window opens within weeks. */
type WindowHold = Hold<
  'window',
  {
    readonly opensAt?: number;
    readonly closesAt?: number;
    readonly timeZone: string;
    readonly isClockUnsure: boolean;
  }
>;

/**
 * Setting `update.strategy = "window"`: a release is activated while a window is open. What a
 * person asked for does not wait, and neither does an activation that has begun: it continues when
 * the window closes, also when the daemon was restarted in between.
 */
export function window({
  bundle,
  policy,
  now,
  facts,
  clockFault,
  clockSynchronised,
}: TimedContext): GateVerdict<WindowHold> {
  if (!awaitsWindow({ bundle, policy }) || clockFault !== undefined) return PASS;
  const timeZone = zoneOf(policy, facts);
  const [next] = nextOpenings(policy.update.windows, timeZone, now, 1);
  if (next !== undefined && next.opensAt === undefined) {
    return next.closesAt === undefined ? PASS : { kind: 'pass', lookAgainAt: next.closesAt };
  }
  const data = { timeZone, isClockUnsure: !clockSynchronised };
  if (next?.opensAt === undefined) return { kind: 'hold', hold: { code: 'window', data, releasedBy: 'time' } };
  const { opensAt, closesAt } = next;
  const times = closesAt === undefined ? { opensAt } : { opensAt, closesAt };
  const hold = { code: 'window', data: { ...data, ...times }, releasedBy: 'time', lookAgainAt: opensAt } as const;
  return { kind: 'hold', hold };
}

/** Whether a release may be activated in a window only. */
export function awaitsWindow({ bundle, policy }: Pick<GateContext, 'bundle' | 'policy'>): boolean {
  const { activationRequestedAt, activatedAt } = bundle;
  const isOpen = activationRequestedAt === undefined && activatedAt === undefined && !hasBegun(bundle);
  return policy.update.strategy === 'window' && isOpen;
}

/** When activations may begin next. */
export interface NextWindows {
  readonly timeZone: string;
  /** At most {@link SHOWN_WINDOWS}; the first one may be open already. */
  readonly openings: readonly Opening[];
}

/** How many windows a person is shown. */
const SHOWN_WINDOWS = 3;

/** The next windows; undefined when `update.strategy` is another one. */
export function nextWindows(policy: Policy, { now, facts }: Pick<Observed, 'now' | 'facts'>): NextWindows | undefined {
  if (policy.update.strategy !== 'window') return undefined;
  const timeZone = zoneOf(policy, facts);
  return { timeZone, openings: nextOpenings(policy.update.windows, timeZone, now, SHOWN_WINDOWS) };
}
