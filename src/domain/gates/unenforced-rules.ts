/**
 * Rules of a payload (bundle format, `update`) that are signed and can't be enforced yet. Until they can, those about the release itself hold its
 * activation; those about other releases are shown as not enforced.
 */
import { bundleName, bundleTitle, type Payload, type UpdateRules } from '../model/bundle.ts';
import type { Reason } from '../model/medium.ts';
import type { RuleCode } from '../model/rule-code.ts';
import type { StoredBundle } from '../state/state.ts';

/** By what time rules are judged. */
export interface RuleClock {
  /** Milliseconds since the epoch: see {@link ruleTime}. */
  readonly now: number;
  /** Undefined: nobody asked. */
  readonly isSynchronised?: boolean | undefined;
}

/** Why one rule holds an activation. */
export interface RuleHold {
  readonly code: RuleCode;
  /** The rule with its values, as the middle of a sentence. */
  readonly why: string;
  /** Whether it ends by itself, with time. */
  readonly releasedBy: 'person' | 'time';
  /** When it ends by itself, in milliseconds since the epoch. */
  readonly until?: number;
}

/** What one gate says. `lookAgainAt`: when it may say something else, in milliseconds since the epoch. */
type GateVerdict =
  | { readonly kind: 'pass'; readonly lookAgainAt?: number }
  | { readonly kind: 'hold'; readonly hold: RuleHold; readonly lookAgainAt?: number };

type Gate = (update: UpdateRules, clock: RuleClock) => GateVerdict;

const PASS: GateVerdict = { kind: 'pass' };

/** In the order in which they are asked and shown. */
const GATES: readonly Gate[] = [gateFrom, gateRollout, gateEndOfLife];

/** What the rules say about the activation of one release. */
export interface RuleVerdict {
  readonly holds: readonly RuleHold[];
  /** When a rule may say something else, in milliseconds since the epoch; undefined when time changes nothing. */
  readonly lookAgainAt: number | undefined;
}

const NO_RULES: RuleVerdict = { holds: [], lookAgainAt: undefined };

/**
 * Which rules hold the activation of a release. None of them holds one that was activated here before, so that there is always a way back. What a
 * person has confirmed with the request for the activation does not hold it any more.
 */
export function judgeRules(bundle: StoredBundle, clock: RuleClock): RuleVerdict {
  const { payload, activatedAt, activationOverrides = [] } = bundle;
  const { update } = payload;
  if (update === undefined || activatedAt !== undefined) return NO_RULES;
  const verdicts = GATES.map((gate) => gate(update, clock));
  const times = verdicts.flatMap(({ lookAgainAt }) => lookAgainAt ?? []);
  return {
    holds: verdicts
      .flatMap((verdict) => (verdict.kind === 'hold' ? [verdict.hold] : []))
      .filter(({ code }) => !activationOverrides.includes(code)),
    lookAgainAt: times.length === 0 ? undefined : Math.min(...times),
  };
}

/**
 * The time by which rules are judged: as for `expires`, the clock of the node, synchronised or not, but never behind the newest `created` of an adopted
 * bundle, in milliseconds since the epoch.
 */
export function ruleTime(bundles: readonly StoredBundle[], now: number): number {
  return bundles.reduce((latest, { payload }) => Math.max(latest, Date.parse(payload.created) || 0), now);
}

/** Why the activation of a release is held, for people; undefined when nothing holds it. */
export function holdReason({ payload }: Pick<StoredBundle, 'payload'>, holds: readonly RuleHold[]): Reason | undefined {
  const [first] = holds;
  if (first === undefined) return undefined;
  const isDue = (payload.schedule ?? 'immediate') === 'immediate' && holds.every(({ until }) => until !== undefined);
  const then = isDue ? ', and goes on by itself then' : '';
  const next = `'stickpin activate ${bundleName(payload)}' activates it all the same, after a confirmation`;
  return {
    code: first.code,
    message: `Its activation is held${then}: ${whyHeld(holds)}. ${next}`,
  };
}

/** Why a person has to confirm the activation, for people. */
export function confirmationMessage({ payload }: Pick<StoredBundle, 'payload'>, holds: readonly RuleHold[]): string {
  return `the activation of ${bundleTitle(payload)} is held: ${whyHeld(holds)}; it is activated after a confirmation only`;
}

/** All rules that hold, with their values, in one clause each. */
export function whyHeld(holds: readonly RuleHold[]): string {
  return holds.map(({ why }) => why).join('; ');
}

function gateFrom({ from }: UpdateRules): GateVerdict {
  if (from === undefined) return PASS;
  const why = `its rule "from" lets it be applied only from ${from}, which stickpin can't check yet`;
  return { kind: 'hold', hold: { code: 'rule/from', why, releasedBy: 'person' } };
}

function gateRollout({ rollout }: UpdateRules, clock: RuleClock): GateVerdict {
  if (rollout === undefined) return PASS;
  const rule = `its rule "rollout" spreads activations over nodes, which stickpin can't do yet`;
  const end = rolloutEnd(rollout);
  if (end === undefined) {
    const why = `${rule}, and names no end (it starts on ${rollout.start})`;
    return { kind: 'hold', hold: { code: 'rule/rollout', why, releasedBy: 'person' } };
  }
  if (end <= clock.now) return PASS;
  const why = `${rule}, and ends on ${timeText(end)}${doubt(clock)}`;
  return { kind: 'hold', hold: { code: 'rule/rollout', why, releasedBy: 'time', until: end }, lookAgainAt: end };
}

/** When all nodes may activate; undefined when only a part of them ever may. */
function rolloutEnd({ start, durationMinutes, startPercentage }: NonNullable<UpdateRules['rollout']>) {
  if (durationMinutes === undefined && (startPercentage ?? 100) < 100) return undefined;
  return Date.parse(start) + (durationMinutes ?? 0) * 60_000;
}

function gateEndOfLife({ endOfLife }: UpdateRules, clock: RuleClock): GateVerdict {
  if (endOfLife === undefined) return PASS;
  const end = Date.parse(endOfLife);
  if (end > clock.now) return { kind: 'pass', lookAgainAt: end };
  const why = `its end of life was on ${endOfLife} (rule "endOfLife")${doubt(clock)}`;
  return { kind: 'hold', hold: { code: 'rule/end-of-life', why, releasedBy: 'person' } };
}

function doubt({ isSynchronised }: RuleClock): string {
  return isSynchronised === false ? " by this node's clock, which is not synchronised" : '';
}

/** The last time that a Date can hold (ECMA-262, "Time Values"). */
const LAST_TIME = 8.64e15;

function timeText(time: number): string {
  return time > LAST_TIME ? 'a day beyond all calendars' : new Date(time).toISOString().replace('.000Z', 'Z');
}

/** A rule of a release, as it is shown. */
export interface ShownRule {
  readonly rule: 'from' | 'rollout' | 'endOfLife' | 'barrier' | 'deadend';
  readonly value: string;
  /** `holds-activation`: of this release, while it applies. `not-enforced-yet`: it restricts other releases, and nothing heeds it. */
  readonly effect: 'holds-activation' | 'not-enforced-yet';
}

/** The rules of a payload. */
export function shownRules({ update }: Pick<Payload, 'update'>): readonly ShownRule[] {
  const { from, rollout, endOfLife, barrier, deadend } = update ?? {};
  const rule = (name: ShownRule['rule'], value: string | undefined): ShownRule[] => {
    const effect = name === 'barrier' || name === 'deadend' ? 'not-enforced-yet' : 'holds-activation';
    return value === undefined ? [] : [{ rule: name, value, effect }];
  };
  return [
    ...rule('from', from),
    ...rule('rollout', rollout && rolloutText(rollout)),
    ...rule('endOfLife', endOfLife),
    ...rule('barrier', barrier?.reason),
    ...rule('deadend', deadend?.reason),
  ];
}

/** A rollout in words: `from 2026-03-10T12:00:00Z, over 90 minutes, 10 % at once`. */
export function rolloutText({ start, durationMinutes, startPercentage }: NonNullable<UpdateRules['rollout']>): string {
  const minutes = durationMinutes === 1 ? '1 minute' : `${durationMinutes} minutes`;
  const over = durationMinutes === undefined ? '' : `, over ${minutes}`;
  return `from ${start}${over}${startPercentage === undefined ? '' : `, ${startPercentage} % at once`}`;
}
