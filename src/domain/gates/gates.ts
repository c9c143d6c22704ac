import { streamClockFault } from '../adoption/stream-facts.ts';
import type { PlannedPath } from '../path/read-paths.ts';
import type { PathRelease } from '../path/stream-path.ts';
import { isRolledBack } from '../release/recorded-phase.ts';
import type { StoredBundle } from '../state/state.ts';
import { fleet } from './fleet.ts';
import type { Gate, GateContext, GateVerdict, Hold, TimedContext } from './gate.ts';
import { hook } from './hook.ts';
import { content, foreignTags, pullsElsewhere, tagsInMotion } from './image-gates.ts';
import { cancellation, denied, floor, order, retry, trust } from './release-gates.ts';
import { barrier, deadend, downgrade, endOfLife, from, rollout } from './rules.ts';
import { clock, schedule, window } from './timing-gates.ts';

/**
 * Rules of a release, of its stream and of the node. A person may confirm the activation in spite
 * of them (`activationOverrides`).
 */
const RULES = { from, barrier, downgrade, deadend, rollout, endOfLife, window, clock };

/**
 * In the order of evaluation and display. A new gate is a function and one line; words of its own
 * in report/hold-text.ts are optional.
 */
const GATES = {
  trust,
  cancellation,
  denied,
  ...RULES,
  floor,
  schedule,
  foreignTags,
  pullsElsewhere,
  content,
  fleet,
  tagsInMotion,
  retry,
  hook,
} satisfies Record<string, Gate>;

type RuleContext = TimedContext & Pick<GateContext, 'path'>;

type HeldBy<Name extends keyof typeof GATES> = Extract<
  ReturnType<(typeof GATES)[Name]>,
  { readonly kind: 'hold' }
>['hold'];

/** `gate`: the name of the gate. */
export type ActivationHold = (HeldBy<keyof typeof GATES> | OrderHold) & { readonly gate: string };

type OrderHold = Extract<ReturnType<typeof order>, { readonly kind: 'hold' }>['hold'];

/** A person may confirm it. */
export type RuleHold = HeldBy<keyof typeof RULES> & { readonly gate: string };

export interface GateVerdicts<H extends Hold = ActivationHold> {
  /** The first one first; empty when all gates let it pass. */
  readonly holds: readonly H[];
  /**
   * When a gate may change its answer, in milliseconds since the epoch; undefined when time changes
   * nothing.
   */
  readonly checkAgainAt: number | undefined;
}

/**
 * All gates but {@link judgeOrder}. A release that was activated, and neither requested since nor
 * rolled back, is past them.
 */
export function judgeGates(context: GateContext): GateVerdicts {
  const { activatedAt, activationRequestedAt = 0 } = context.bundle;
  const isOpen = activatedAt === undefined || activationRequestedAt > activatedAt || isRolledBack(context.bundle);
  return isOpen ? ask<GateContext, HeldBy<keyof typeof GATES>>(GATES, context) : { holds: [], checkAgainAt: undefined };
}

/**
 * Holds a release that nothing else holds, while another one of its stream is activated next. It
 * comes last, when that is known.
 */
export function judgeOrder(bundle: StoredBundle, next: PathRelease | undefined): readonly ActivationHold[] {
  const verdict = order(bundle, next);
  return verdict.kind === 'hold' ? [{ ...verdict.hold, gate: 'order' }] : [];
}

/** The rules alone: what a person is to confirm. */
export function judgeRules(bundle: StoredBundle, question: RuleQuestion): GateVerdicts<RuleHold> {
  return ask<RuleContext, HeldBy<keyof typeof RULES>>(RULES, {
    ...question,
    bundle,
    clockFault: streamClockFault(bundle, question),
  });
}

export interface RuleQuestion extends Pick<GateContext, 'policy' | 'now' | 'facts' | 'clockSynchronised'> {
  readonly bundles: readonly StoredBundle[];
  readonly path: PlannedPath;
}

function ask<Context, H extends Hold>(
  gates: Readonly<Record<string, (context: Context) => GateVerdict<H>>>,
  context: Context,
): GateVerdicts<H & { readonly gate: string }> {
  const verdicts = Object.entries(gates).map(([gate, verdictOn]) => ({ gate, verdict: verdictOn(context) }));
  const times = verdicts.flatMap(
    ({ verdict }) => (verdict.kind === 'hold' ? verdict.hold.checkAgainAt : verdict.checkAgainAt) ?? [],
  );
  return {
    holds: verdicts.flatMap(({ gate, verdict }) => (verdict.kind === 'hold' ? [{ ...verdict.hold, gate }] : [])),
    checkAgainAt: times.length === 0 ? undefined : Math.min(...times),
  };
}
