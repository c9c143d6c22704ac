import { capital } from '../../platform/plain-text.ts';
import type { ActivationHold, RuleHold } from '../activation/gates.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { bundleName, bundleTitle } from '../model/bundle.ts';
import type { Phase } from '../model/condition.ts';
import { RULE_CODES } from '../model/reason.ts';
import type { StoredBundle } from '../state/state.ts';
import type { Does } from './actions.ts';
import { doesAbout } from './codes.ts';
import type { Said } from './entries.ts';
import { BRIEF, type Names, WHOLE } from './names.ts';
import { endsAlone, HOLDS, QUIET, WITHOUT_COMMAND } from './reasons/holds.ts';
import { joined, messageOf, type ShownReason } from './reasons/reason-text.ts';

type WithoutGate<H> = H extends ActivationHold ? Pick<H, 'code' | 'data'> : never;

/** `what` in the result is a clause about a release ("it"). */
export function holdWords(hold: WithoutGate<ActivationHold>, names: Names = WHOLE): Said {
  const says = HOLDS[hold.code].says as (data: ActivationHold['data'], names: Names) => Said;
  return says(hold.data, names);
}

/** Returns a message without full stop. The first sentence is a clause. */
export function holdMessage(hold: WithoutGate<ActivationHold>): string {
  return messageOf(holdWords(hold));
}

/** Like {@link holdMessage}, for several holds. */
function messageOfAll(holds: readonly RuleHold[]): string {
  return joined(holds.map((hold, at) => (at === 0 ? holdMessage(hold) : capital(holdMessage(hold)))));
}

/** Returns the action of a person, without regard to the stick of the release. */
export function doesAboutHold(hold: ActivationHold): Does {
  return holdWords(hold, BRIEF).does ?? (endsAlone(hold) ? 'wait' : doesAbout(hold.code));
}

/** A hook and a lock hold every release, which matters only where the activation is due. */
export function shownHolds({
  holds,
  activationDue,
}: Pick<BundleAssessment, 'holds' | 'activationDue'>): readonly ActivationHold[] {
  return holds.filter(({ code }) => activationDue || (code !== 'hook' && code !== 'fleet/lock'));
}

export function whyHeld(holds: readonly RuleHold[]): string {
  return holds.map((hold) => holdWords(hold).what).join('; ');
}

export function confirmationMessage({ payload }: StoredBundle, holds: readonly RuleHold[]): string {
  return joined([
    `the activation of ${bundleTitle(payload)} is held: ${messageOfAll(holds)}`,
    'It is activated after a confirmation only',
  ]);
}

/** @param holds all of the release. @returns undefined when no rule holds it */
export function ruleReason({ payload }: StoredBundle, holds: readonly ActivationHold[]): ShownReason | undefined {
  const rules = holds.filter(isRuleHold);
  const [first] = rules;
  if (first === undefined) return undefined;
  const isAutomatic = holds.every(({ releasedBy }) => releasedBy !== 'person');
  const head = isAutomatic ? 'It is not activated yet' : 'It is not activated automatically';
  const message = joined([
    `${head}: ${messageOfAll(rules)}`,
    isAutomatic ? 'It is activated automatically when nothing holds it any more' : undefined,
    `To activate it anyway, run 'stickpin activate ${bundleName(payload)}' and confirm`,
  ]);
  return { code: first.code, message };
}

/** Whether a person may confirm the activation despite the hold. */
export function isRuleHold(hold: ActivationHold): hold is RuleHold {
  return (RULE_CODES as readonly string[]).includes(hold.code);
}

/**
 * Returns why an awaited release is not activated, if a person should know. Undefined when it is
 * reported elsewhere (trust, a cancelled preload, a failure, a damaged image), when its maker wants
 * it (the schedule) and when it ends in moments.
 */
export function heldReason({ bundle, ...entry }: BundleAssessment): ShownReason | undefined {
  const hold = reportedHold(entry);
  if (hold === undefined) return undefined;
  const byRules = ruleReason(bundle, shownHolds(entry));
  if (byRules !== undefined) return byRules;
  const run = `'stickpin activate ${bundleName(bundle.payload)}'`;
  const reason = (head: string, next?: string) => {
    return { code: hold.code, message: joined([`${head}: ${holdMessage(hold)}`, next]) };
  };
  if (hold.code === 'hook') return reason(`It is not activated${bundle.activatedAt === undefined ? '' : ' again'} yet`);
  if (isWithoutCommand(hold)) return reason('It is not activated');
  if (hold.gate === 'fleet' || hold.gate === 'lock')
    return reason('It is not activated yet', `To activate it on this node now, run ${run}`);
  return reason('It is not activated automatically', `Run ${run} if it is the release that you want`);
}

/** Whether no request ends it. */
export function isWithoutCommand({ code }: ActivationHold): boolean {
  return WITHOUT_COMMAND.has(code);
}

type AwaitedBy = 'phase' | 'isRequested';

/**
 * Whether its activation comes next: it is ready, or was activated before and is requested again,
 * as in a rollback.
 */
export function isAwaited({ phase, isRequested }: Pick<BundleAssessment, AwaitedBy>): boolean {
  return phase === 'ready' || (isRequested === true && AFTER_ACTIVATION.has(phase));
}

const AFTER_ACTIVATION: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven', 'superseded']);

/** Returns the first rule, else the first hold that is not reported elsewhere. */
export function reportedHold(
  entry: Pick<BundleAssessment, AwaitedBy | 'holds' | 'activationDue'>,
): ActivationHold | undefined {
  if (!isAwaited(entry)) return undefined;
  const holds = shownHolds(entry);
  return holds.find(isRuleHold) ?? holds.find(({ code }) => !QUIET.has(code));
}
