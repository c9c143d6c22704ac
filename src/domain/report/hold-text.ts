import { assertNever } from '../../platform/app-error.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import type { ActivationHold, RuleHold } from '../gates/gates.ts';
import { bundleName, bundleTitle } from '../model/bundle.ts';
import type { Phase } from '../model/phase.ts';
import { RULE_CODES } from '../model/reason.ts';
import { MAX_RANGE_LENGTH } from '../model/version.ts';
import type { StoredBundle } from '../state/state.ts';
import type { ShownReason } from './reasons/reason-text.ts';
import { nobodyKnownClause, notReadyClause, orderClause, rolledBackClause } from './texts/fleet-text.ts';
import { elsewhereClause, hookClause } from './texts/release-text.ts';
import { clockClause, doubt, rolloutClause, windowClause } from './texts/time-text.ts';

/** A clause without full stop. A hold without words is described by its gate and its data. */
export function holdClause(hold: ActivationHold): string {
  switch (hold.code) {
    case 'trust/withdrawn':
      return `it is not trusted now (${hold.data.reason})`;
    case 'engine/cancelled':
      return 'its preload was cancelled, and images are missing';
    case 'engine/denied':
      return 'it was rolled back on this node, and is not activated again automatically';
    case 'engine/not-next':
      return `${hold.data.next} is activated next, and this release is then skipped`;
    case 'rule/from':
      return fromClause(hold.data);
    case 'rule/barrier':
      return barrierClause(hold.data);
    case 'rule/downgrade':
      return `it is a downgrade: its ${hold.data.by} is lower than that of ${hold.data.current}, the current release`;
    case 'rule/deadend':
      return `the current release ${hold.data.current} is a dead end (${hold.data.saidBy}: ${hold.data.reason})`;
    case 'rule/rollout':
      return rolloutClause(hold.data);
    case 'rule/end-of-life':
      return `its end of life was on ${hold.data.endOfLife} (rule "endOfLife")${doubt(hold.data)}`;
    case 'engine/floor-unknown':
      return `the records of this node are lost, so it is not known which release of ${hold.data.stream} was activated here before`;
    case 'engine/below-floor': {
      const { stream, sequence, floor } = hold.data;
      return `its sequence is ${sequence}, and a release of ${stream} with sequence ${floor} was activated here before`;
    }
    case 'window':
      return windowClause(hold.data);
    case 'clock':
      return clockClause(hold.data);
    case 'engine/manual':
      return MANUAL[hold.data.by];
    case 'engine/tag-of-other-stream':
      return foreignTagText(hold.data);
    case 'engine/pulls-from-elsewhere':
      return elsewhereClause(hold.data);
    case 'engine/content-unchecked':
      return 'its images are checked first';
    case 'engine/content-damaged':
      return damageClause(hold.data);
    case 'fleet/unknown':
      return "stickpin-fleet.service does not answer, so nothing is known of the other nodes: see 'systemctl status stickpin-fleet'";
    case 'fleet/nobody-known':
      return nobodyKnownClause(hold.data);
    case 'fleet/rolled-back':
      return rolledBackClause(hold.data);
    case 'fleet/not-ready':
      return notReadyClause(hold.data);
    case 'fleet/order':
      return orderClause(hold.data);
    case 'engine/tags-in-motion':
      return 'another release is being activated now; this one comes after it';
    case 'engine/activation-failed':
      return `its activation failed (${hold.data.reason}) and is tried again`;
    case 'hook':
      return hookClause(hold.data);
    default:
      return unworded(hold);
  }
}

const MANUAL: Readonly<Record<HeldData<'engine/manual'>['by'], string>> = {
  release: 'its schedule is "manual": a person activates it',
  node: 'the setting update.strategy is "manual" on this node: a person activates it',
  fleet: 'the setting fleet.activate is "manual" on this node: a person activates it',
};

type DataOf<Code extends RuleHold['code']> = Extract<RuleHold, { readonly code: Code }>['data'];

function fromClause({ from, current, isUnreadable, after }: DataOf<'rule/from'>): string {
  if (from.length > MAX_RANGE_LENGTH) {
    return `its rule "from" has more than ${MAX_RANGE_LENGTH} characters, so that it is not read: have the release made again`;
  }
  if (isUnreadable) return `its rule "from" (${from}) can't be compared with the current release ${current}`;
  const turn = after === undefined ? '' : `; ${after} is activated first`;
  return `its rule "from" allows it only from ${from}, and the current release is ${current}${turn}`;
}

function barrierClause({ barrier, reason, lacks }: DataOf<'rule/barrier'>): string {
  switch (lacks) {
    case 'bundle':
      return `barrier ${barrier} must be activated first (${reason}). It is not on this node: plug in its stick`;
    case 'trust':
      return `barrier ${barrier} must be activated and proven first (${reason}), and it is rejected or not trusted on this node`;
    case 'activation':
      return `barrier ${barrier} must be activated and proven first (${reason})`;
    case 'proof':
      return `barrier ${barrier}, the current release, must be proven first (${reason})`;
    default:
      return assertNever(lacks);
  }
}

function damageClause({ image, more }: HeldData<'engine/content-damaged'>): string {
  const what = more === 0 ? `its image ${image} is` : `${more + 1} of its images are`;
  const which = more === 0 ? '' : `, among them ${image}`;
  return `${what} damaged on this node${which}`;
}

/**
 * A hook holds every release until its unit has succeeded, which matters only where the activation
 * is due.
 */
export function shownHolds({
  holds,
  activationDue,
}: Pick<BundleAssessment, 'holds' | 'activationDue'>): readonly ActivationHold[] {
  return holds.filter(({ code }) => code !== 'hook' || activationDue);
}

function unworded({ gate, data }: { readonly gate: string; readonly data: object }): string {
  const values = Object.entries(data).map(([name, value]) => `${name} ${value}`);
  return `gate "${gate}" holds it${values.length === 0 ? '' : ` (${values.join(', ')})`}`;
}

export function whyHeld(holds: readonly RuleHold[]): string {
  return holds.map(holdClause).join('; ');
}

export function foreignTagText({ tag, stream, other, holder }: HeldData<'engine/tag-of-other-stream'>): string {
  return `stream ${stream} may not take tag ${tag} from stream ${other}: ${holder} holds it for another image. Give that release up first ('stickpin unpin ${holder}'), or use other tags`;
}

type HeldData<Code extends ActivationHold['code']> = Extract<ActivationHold, { readonly code: Code }>['data'];

export function confirmationMessage({ payload }: Pick<StoredBundle, 'payload'>, holds: readonly RuleHold[]): string {
  return `the activation of ${bundleTitle(payload)} is held: ${whyHeld(holds)}; it is activated after a confirmation only`;
}

/** Undefined when no rule holds it. `holds`: all. */
export function ruleReason(
  { payload }: Pick<StoredBundle, 'payload'>,
  holds: readonly ActivationHold[],
): ShownReason | undefined {
  const rules = holds.filter(isRuleHold);
  const [first] = rules;
  if (first === undefined) return undefined;
  const isAutomatic = holds.every(({ releasedBy }) => releasedBy !== 'person');
  const head = isAutomatic ? 'It is not activated yet' : 'It is not activated automatically';
  const end = isAutomatic ? ' It is activated automatically when nothing holds it any more.' : '';
  const next = `To activate it anyway, run 'stickpin activate ${bundleName(payload)}' and confirm`;
  return { code: first.code, message: `${head}: ${whyHeld(rules)}.${end} ${next}` };
}

/** Whether a person may confirm the activation in spite of it. */
export function isRuleHold(hold: ActivationHold): hold is RuleHold {
  return (RULE_CODES as readonly string[]).includes(hold.code);
}

/**
 * Why an awaited release is not activated, where a person should know. Undefined for what is
 * reported elsewhere (trust, a cancelled preload, a failure, a damaged image), what its maker wants
 * (the schedule) and what is over in moments.
 */
export function heldReason({
  bundle,
  ...entry
}: Pick<BundleAssessment, 'bundle' | AwaitedBy | 'holds' | 'activationDue'>): ShownReason | undefined {
  const hold = reportedHold(entry);
  if (hold === undefined) return undefined;
  const byRules = ruleReason(bundle, shownHolds(entry));
  if (byRules !== undefined) return byRules;
  if (hold.code === 'hook') {
    const again = bundle.activatedAt === undefined ? '' : ' again';
    return { code: hold.code, message: `It is not activated${again} yet: ${holdClause(hold)}` };
  }
  if (hold.code === 'engine/tag-of-other-stream' || hold.code === 'engine/pulls-from-elsewhere') {
    return { code: hold.code, message: `It is not activated: ${holdClause(hold)}` };
  }
  if (hold.gate === 'fleet') {
    const now = `To activate it on this node now, run 'stickpin activate ${bundleName(bundle.payload)}'`;
    return { code: hold.code, message: `It is not activated yet: ${holdClause(hold)}. ${now}` };
  }
  const advice = `Run 'stickpin activate ${bundleName(bundle.payload)}' if it is the release that you want`;
  return { code: hold.code, message: `It is not activated automatically: ${holdClause(hold)}. ${advice}` };
}

type AwaitedBy = 'phase' | 'isAskedFor';

/**
 * Whether its activation comes next: it is ready, or was activated before and is requested again,
 * as in a rollback.
 */
export function isAwaited({ phase, isAskedFor }: Pick<BundleAssessment, AwaitedBy>): boolean {
  return phase === 'ready' || (isAskedFor === true && AFTER_ACTIVATION.has(phase));
}

const AFTER_ACTIVATION: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven', 'superseded']);

/** The first rule, else the first hold that is not reported elsewhere. */
export function reportedHold(
  entry: Pick<BundleAssessment, AwaitedBy | 'holds' | 'activationDue'>,
): ActivationHold | undefined {
  if (!isAwaited(entry)) return undefined;
  const holds = shownHolds(entry);
  return holds.find(isRuleHold) ?? holds.find(({ code }) => !QUIET.has(code));
}

const QUIET: ReadonlySet<string> = new Set<ActivationHold['code']>([
  'trust/withdrawn',
  'engine/cancelled',
  'engine/manual',
  'engine/not-next',
  'engine/content-unchecked',
  'engine/content-damaged',
  'engine/tags-in-motion',
  'engine/activation-failed',
]);
