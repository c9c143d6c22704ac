import { streamClockFault } from '../adoption/floors.ts';
import { isRolledBack } from '../release/recorded-phase.ts';
import type { StoredBundle } from '../state/state.ts';
import { fleet, lock } from './fleet-gate.ts';
import type { GateContext, GateVerdict, Hold, RuleContext } from './gate.ts';
import type { PlannedPath } from './read-paths.ts';
import {
  cancellation,
  content,
  denied,
  floor,
  foreignTags,
  hook,
  order,
  pullsElsewhere,
  retry,
  tagsInMotion,
  trust,
} from './release-gates.ts';
import { barrier, deadend, downgrade, endOfLife, from, rollout } from './rules.ts';
import type { PathRelease } from './stream-path.ts';
import { clock, schedule, window } from './timing-gates.ts';

/** A person may override these rules of a release, of its stream and of the node. */
const RULES = { from, barrier, downgrade, deadend, rollout, endOfLife, window, clock };

/** The order is that of evaluation and display. Texts are in report/reasons/holds.ts. */
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
  lock,
  hook,
};

type HeldBy<Name extends keyof typeof GATES> = Extract<
  ReturnType<(typeof GATES)[Name]>,
  { readonly kind: 'hold' }
>['hold'];

export type ActivationHold = (HeldBy<keyof typeof GATES> | OrderHold) & { readonly gate: string };

type OrderHold = Extract<ReturnType<typeof order>, { readonly kind: 'hold' }>['hold'];

export type RuleHold = HeldBy<keyof typeof RULES> & { readonly gate: string };

interface GateVerdicts<H extends Hold = ActivationHold> {
  readonly holds: readonly H[];
  readonly checkAgainAt: number | undefined;
}

/** Judges all gates but {@link judgeOrder}. An activated release without a new request passes. */
export function judgeGates(context: GateContext): GateVerdicts {
  const { activatedAt, activationRequestedAt = 0 } = context.bundle;
  const isOpen = activatedAt === undefined || activationRequestedAt > activatedAt || isRolledBack(context.bundle);
  return isOpen ? ask<GateContext, HeldBy<keyof typeof GATES>>(GATES, context) : { holds: [], checkAgainAt: undefined };
}

/** Runs last, when the next release of each stream is known. */
export function judgeOrder(bundle: StoredBundle, next: PathRelease | undefined): readonly ActivationHold[] {
  const verdict = order(bundle, next);
  return verdict.kind === 'hold' ? [{ ...verdict.hold, gate: 'order' }] : [];
}

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
