import type { StoredBundle } from '../state/state.ts';
import { cancellation } from './cancellation.ts';
import { endOfLife } from './end-of-life.ts';
import { floor } from './floor.ts';
import { from } from './from.ts';
import type { Gate, GateContext, GateVerdict, Hold } from './gate.ts';
import { retry } from './retry.ts';
import { rollout } from './rollout.ts';
import { ruleTime } from './rule.ts';
import { schedule } from './schedule.ts';
import { tagsInMotion } from './tags-in-motion.ts';
import { trust } from './trust.ts';

/**
 * Rules of the payload. A person may confirm the activation in spite of them
 * (`activationOverrides`).
 */
const RULES = { from, rollout, endOfLife };

/**
 * All gates, in the order in which they are asked and shown. A new gate is one file and one line
 * here; words of its own in report/hold-text.ts are optional.
 */
const GATES = { trust, cancellation, ...RULES, floor, schedule, tagsInMotion, retry } satisfies Record<string, Gate>;

type RuleContext = Pick<GateContext, 'bundle' | 'ruleTime' | 'clockSynchronised'>;

type HeldBy<Name extends keyof typeof GATES> = Extract<
  ReturnType<(typeof GATES)[Name]>,
  { readonly kind: 'hold' }
>['hold'];

/** What holds an activation. `gate`: the name of the gate that says so. */
export type ActivationHold = HeldBy<keyof typeof GATES> & { readonly gate: string };

/** A hold by a rule of the payload. */
export type RuleHold = HeldBy<keyof typeof RULES> & { readonly gate: string };

/** What gates say about one activation. */
export interface GateVerdicts<H extends Hold = ActivationHold> {
  /** All that hold it, the first one first; empty when all gates let it pass. */
  readonly holds: readonly H[];
  /**
   * When a gate may say something else, in milliseconds since the epoch; undefined when time
   * changes nothing.
   */
  readonly lookAgainAt: number | undefined;
}

/**
 * Asks all gates about a release. One that was activated, and was not asked for since, is past
 * them.
 */
export function askGates(context: GateContext): GateVerdicts {
  const { activatedAt, activationRequestedAt = 0 } = context.bundle;
  const isOpen = activatedAt === undefined || activationRequestedAt > activatedAt;
  return isOpen ? ask<GateContext, HeldBy<keyof typeof GATES>>(GATES, context) : { holds: [], lookAgainAt: undefined };
}

/** Asks the rules of the payload alone: what a person is to confirm. */
export function askRules(
  bundle: StoredBundle,
  { bundles, now, clockSynchronised }: RuleQuestion,
): GateVerdicts<RuleHold> {
  return ask<RuleContext, HeldBy<keyof typeof RULES>>(RULES, {
    bundle,
    ruleTime: ruleTime(bundles, now),
    clockSynchronised,
  });
}

/** What rules are judged by. */
export interface RuleQuestion {
  /** All adopted bundles. */
  readonly bundles: readonly StoredBundle[];
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
  /** Undefined: nobody asked. */
  readonly clockSynchronised?: boolean | undefined;
}

function ask<Context, H extends Hold>(
  gates: Readonly<Record<string, (context: Context) => GateVerdict<H>>>,
  context: Context,
): GateVerdicts<H & { readonly gate: string }> {
  const verdicts = Object.entries(gates).map(([gate, verdictOn]) => ({ gate, verdict: verdictOn(context) }));
  const times = verdicts.flatMap(
    ({ verdict }) => (verdict.kind === 'hold' ? verdict.hold.lookAgainAt : verdict.lookAgainAt) ?? [],
  );
  return {
    holds: verdicts.flatMap(({ gate, verdict }) => (verdict.kind === 'hold' ? [{ ...verdict.hold, gate }] : [])),
    lookAgainAt: times.length === 0 ? undefined : Math.min(...times),
  };
}
