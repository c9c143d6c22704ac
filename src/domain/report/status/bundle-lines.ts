import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { formatCount } from '../../../platform/sizes.ts';
import type { ActivationHold } from '../../activation/gates.ts';
import { sequenceOf } from '../../adoption/floors.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { unsupportedReason } from '../../assess/derive-phase.ts';
import { isRecordingTrouble, isStateDamage } from '../../preload/space.ts';
import { isRetired, isRolledBack } from '../../release/recorded-phase.ts';
import { flawedAmong } from '../../state/checks.ts';
import {
  briefName,
  briefTitle,
  commandNameAmong,
  fitted,
  foreignSentences,
  inOrder,
  type KeptBundles,
  MAX_LINE_LENGTH,
  SEE_LIST,
  shortened,
  titleAmong,
} from '../fitted.ts';
import { briefHold, isAwaited, isRuleHold, isWithoutCommand, reportedHold } from '../hold-text.ts';
import { endsByItself, reasonAmong, reasonWithin } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import { runtimeAway } from '../texts/short-texts.ts';

/** Why the newest of these bundles can't go on, or what went wrong with it last. */
export function bundleTrouble(those: readonly BundleAssessment[], { bundles }: Assessment): string | undefined {
  const spoken = withoutOutdated(those).filter((entry) => !needsOtherMedium(entry) && !isPassedOver(entry, bundles));
  const stopped = spoken.filter(({ reason }) => reason !== undefined);
  const entry = stopped.findLast(needsPerson) ?? stopped.at(-1) ?? spoken.findLast(({ trouble }) => trouble);
  const reason = entry?.reason ?? entry?.trouble;
  return entry && reason && reasonAmong(reason, entry.bundle, bundles);
}

/** Without releases that were rolled back, once a newer one of their stream is among them. */
export function withoutOutdated(those: readonly BundleAssessment[]): readonly BundleAssessment[] {
  const kept = those.filter(({ phase }) => phase !== 'retired').map(({ bundle }) => bundle);
  return those.filter(
    ({ reason, bundle }) =>
      reason?.code !== 'engine/rolled-back' ||
      kept.every((other) => other.payload.name !== bundle.payload.name || sequenceOf(other) <= sequenceOf(bundle)),
  );
}

/**
 * Whether a newer release of its stream was activated instead, and nobody has requested it since:
 * what it waits for concerns no person any more.
 */
function isPassedOver(entry: BundleAssessment, bundles: readonly BundleAssessment[]): boolean {
  const { bundle, phase, reason, activationDue, isRequested } = entry;
  if (bundle.activatedAt !== undefined || activationDue || isRequested === true) return false;
  if (phase !== 'held' && (phase !== 'ready' || reason !== undefined)) return false;
  return bundles.some(
    ({ bundle: other }) =>
      other.payload.name === bundle.payload.name &&
      other.activatedAt !== undefined &&
      !isRetired(other) &&
      !isRolledBack(other) &&
      sequenceOf(other) > sequenceOf(bundle),
  );
}

/** Whether a release waits for a person, and not for a time or for something on the node. */
function needsPerson(entry: BundleAssessment): boolean {
  if (entry.reason?.code === 'engine/rolled-back') return false;
  if (entry.reason !== undefined) return !endsByItself(entry.reason.code);
  return isAwaited(entry) && entry.holds.some(({ releasedBy }) => releasedBy === 'person');
}

/** Those that wait for a person: a line names them before others. */
export function urgentAmong(bundles: readonly BundleAssessment[]): readonly BundleAssessment[] {
  return withoutOutdated(bundles).filter(
    (entry) => needsPerson(entry) && !needsOtherMedium(entry) && !isPassedOver(entry, bundles),
  );
}

/** The last one that waits for a person, else the last one. */
export function foremost(
  those: readonly BundleAssessment[],
  bundles: readonly BundleAssessment[],
): BundleAssessment | undefined {
  const current = those.filter((entry) => !isPassedOver(entry, bundles));
  return current.findLast(needsPerson) ?? current.at(-1);
}

/**
 * Whether a release can't be completed from what was seen of it, and nothing with it is plugged in:
 * it comes last in every line.
 */
export function needsOtherMedium({ hold, media, badBlobs }: BundleAssessment): boolean {
  return hold === 'media' && media.length === 0 && badBlobs.length > 0;
}

/** Undefined when it needs no other medium. */
export function otherMediumNote(entry: BundleAssessment, bundles: readonly BundleAssessment[]): string | undefined {
  if (!needsOtherMedium(entry)) return undefined;
  const title = titleAmong(entry.bundle, bundles);
  return flawedAmong(entry.badBlobs).length > 0
    ? `${title} needs an undamaged copy: see 'stickpin list'.`
    : `${title} is incomplete: plug in the stick that carries the rest.`;
}

/**
 * What holds a release that was activated before and is requested again. Undefined when nothing
 * does, or when that is reported elsewhere.
 */
export function requestedLine(
  those: readonly BundleAssessment[],
  { bundles }: Pick<Assessment, 'bundles'>,
): string | undefined {
  const requested = those.findLast((entry) => entry.phase !== 'ready' && isAwaited(entry) && !entry.reason);
  return requested && heldLine(requested, bundles);
}

export function readyLine(entry: BundleAssessment, bundles: readonly BundleAssessment[]): string {
  const { bundle, phase, activationDue } = entry;
  const images = bundle.contents.images.length;
  const title = titleAmong(bundle, bundles);
  const name = commandNameAmong(bundle, bundles);
  if (phase === 'retired') return `${title} is retired. To use it again, run 'stickpin activate ${name}'.`;
  const artifacts = bundle.contents.artifacts?.length ?? 0;
  const copied = `${artifacts - entry.absentArtifacts.length}/${formatCount(artifacts, 'artifact')}`;
  if (phase === 'preloading' && entry.absentArtifacts.length > 0)
    return `${title} is copied to this node: ${copied}.${entry.isOnPeersOnly === true ? '' : ' Leave the stick plugged in.'}`;
  const held = heldLine(entry, bundles);
  if (held !== undefined) return held;
  const isAwaited = phase === 'ready' && bundle.activatedAt === undefined;
  const beside = artifacts === 0 ? '' : `, ${formatCount(artifacts, 'artifact')} kept`;
  const ready = `${title} is ready: ${formatCount(images, 'image')} present and pinned${beside}.`;
  const isChecked = entry.holds.some(({ code }) => code === 'engine/content-unchecked');
  if (activationDue && isChecked) return `${ready} They are checked, then it is activated.`;
  if (activationDue) return `${ready} Activating next.`;
  const note = stickNote(entry);
  const activate = `'stickpin activate ${name}' when you like.`;
  if (entry.neededBy !== undefined) return `${title} is ${phase}. ${note}${isAwaited ? activate : ''}`.trim();
  if (!isAwaited) return `${ready} It is ${phase}${isOnStick(entry) ? '; you may remove the stick.' : '.'}`;
  const noted = `${ready} ${activate} ${note}`.trim();
  // A command with a digest is long, and must not be cut.
  return noted.length <= MAX_LINE_LENGTH ? noted : `${ready} ${activate}`;
}

export function blockedLine({ observed, memory, assessment }: Snapshot): string | undefined {
  const { runtime, trust } = observed;
  const { obstacle } = memory;
  const { bundles, adoptions } = assessment;
  if (trust.revocationsUnreadable && trust.require !== 'approval') {
    return withForeign(
      "Nothing is trusted, since revocations can't be read: ",
      trust.cause ?? "see 'stickpin doctor'",
      ['What is pinned stays.'],
    );
  }
  const waiting = bundles.find((entry) => entry.phase === 'held' && entry.badBlobs.length === 0);
  const waits = waiting === undefined ? '' : `${titleAmong(waiting.bundle, bundles)} waits for it.`;
  if (runtime.kind !== 'reachable') {
    const { what, next } = runtimeAway(runtime);
    return inOrder([oneLine(what), waits, next], [oneLine(what), next, waits]);
  }
  const tooOld = unsupportedReason(runtime);
  if (tooOld !== undefined) return fitted([reasonWithin(tooOld, MAX_LINE_LENGTH - waits.length - 1), waits]);
  if (obstacle === undefined) return undefined;
  if (!isRecordingTrouble(obstacle)) return withForeign('', obstacle.message, ['It is retried automatically.']);
  const [awaited] = adoptions;
  const what =
    awaited === undefined
      ? ''
      : `${briefTitle(awaited.found.bundle.payload)} on ${briefName(awaited.label)} waits for it.`;
  const next = isStateDamage(obstacle) ? '' : 'stickpin continues automatically.';
  return withForeign('', obstacle.message, [what, next]);
}

function withForeign(head: string, message: string, after: readonly string[]): string {
  const [first = '', ...more] = foreignSentences(message);
  return inOrder([`${head}${sentence(oneLine(message))}`, ...after], [`${head}${first}`, ...more, ...after]);
}

/**
 * At most 200 characters. The title and what holds it come first, then whether its stick may go;
 * `stickpin list` has the whole reason. Undefined when nothing holds it that a person should know
 * of.
 */
export function heldLine(entry: BundleAssessment, bundles: KeptBundles): string | undefined {
  const hold = reportedHold(entry);
  if (hold === undefined) return undefined;
  const { bundle } = entry;
  const title = titleAmong(bundle, bundles);
  const head = `${title} is not activated${bundle.activatedAt === undefined ? '' : ' again'}: `;
  const command = `'stickpin activate ${commandNameAmong(bundle, bundles)}'`;
  const advice = adviceFor(hold, command);
  const why = oneLine(briefHold(hold));
  const images = `${formatCount(bundle.contents.images.length, 'image')} present and pinned.`;
  const stick = stickNote(entry);
  const lines = [`${head}${why}. ${stick}${advice} ${images}`, `${head}${why}. ${stick}${advice}`];
  const fitting = lines.find((line) => line.length <= MAX_LINE_LENGTH);
  if (fitting !== undefined) return fitting;
  const end = `. ${stick}${SEE_LIST}`;
  return `${head}${shortened(why, MAX_LINE_LENGTH - head.length - end.length)}${end}`;
}

function adviceFor(hold: ActivationHold, command: string): string {
  if (isWithoutCommand(hold)) return SEE_LIST;
  const isAutomatic = hold.gate === 'fleet' ? hold.code !== 'fleet/rolled-back' : isRuleHold(hold);
  if (!isAutomatic || hold.releasedBy === 'person') return `To activate it anyway: ${command}.`;
  return `It is activated automatically; to do it now: ${command}.`;
}

function isOnStick({ media, isOnPeersOnly }: Carried): boolean {
  return media.length > 0 && isOnPeersOnly !== true;
}

/** A sentence and a blank; empty when no stick is plugged in. */
function stickNote(entry: Carried): string {
  if (!isOnStick(entry)) return '';
  const { neededBy } = entry;
  if (neededBy === undefined) return 'You may remove the stick. ';
  if (neededBy === 'unknown') return 'Leave the stick in: stickpin-fleet.service does not say who needs it. ';
  return `Leave the stick in: ${neededBy.loading} of ${neededBy.all} nodes still load from it. `;
}

type Carried = Pick<BundleAssessment, 'media' | 'isOnPeersOnly' | 'neededBy'>;
