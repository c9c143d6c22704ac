import { formatCount } from '../../../platform/sizes.ts';
import { sequenceOf } from '../../adoption/floors.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { isRetired, isRolledBack } from '../../release/recorded-phase.ts';
import { flawedAmong } from '../../state/checks.ts';
import { MAX_LINE_LENGTH } from '../brief/fitted.ts';
import { commandNameAmong, reasonAmong, titleAmong } from '../brief/namesake.ts';
import { isAwaited } from '../hold-text.ts';
import { endsByItself } from '../reasons/remedies.ts';
import { heldLine } from './held-line.ts';
import { isOnStick, stickNote } from './stick-note.ts';

/** Why the newest of these bundles can't go on, or what went wrong with it last. */
export function bundleTrouble(those: readonly BundleAssessment[], { bundles }: Assessment): string | undefined {
  const spoken = withoutOutdated(those).filter((entry) => !needsOtherMedium(entry) && !isPassedOver(entry, bundles));
  const stopped = spoken.filter(({ reason }) => reason !== undefined);
  const entry = stopped.findLast(needsPerson) ?? stopped.at(-1) ?? spoken.findLast(({ trouble }) => trouble);
  const reason = entry?.reason ?? entry?.trouble;
  return entry && reason && reasonAmong(reason, entry.bundle, bundles);
}

/**
 * Those that have something to say: what was rolled back has not, once a newer release of its
 * stream is among them.
 */
export function withoutOutdated(those: readonly BundleAssessment[]): readonly BundleAssessment[] {
  const kept = those.filter(({ phase }) => phase !== 'retired').map(({ bundle }) => bundle);
  return those.filter(
    ({ reason, bundle }) =>
      reason?.code !== 'engine/rolled-back' ||
      kept.every((other) => other.payload.name !== bundle.payload.name || sequenceOf(other) <= sequenceOf(bundle)),
  );
}

/**
 * Whether a newer release of its stream was activated instead of it, and nobody has asked for it
 * since: neither that it is ready nor what its preload waits for concerns a person any more.
 */
function isPassedOver(entry: BundleAssessment, bundles: readonly BundleAssessment[]): boolean {
  const { bundle, phase, reason, activationDue, isAskedFor } = entry;
  if (bundle.activatedAt !== undefined || activationDue || isAskedFor === true) return false;
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

/** Those that wait for a person and of which a line has to speak before it speaks of others. */
export function urgentAmong(bundles: readonly BundleAssessment[]): readonly BundleAssessment[] {
  return withoutOutdated(bundles).filter(
    (entry) => needsPerson(entry) && !needsOtherMedium(entry) && !isPassedOver(entry, bundles),
  );
}

/** Which release to speak of: the last one that waits for a person, else the last one. */
export function foremost(
  those: readonly BundleAssessment[],
  bundles: readonly BundleAssessment[],
): BundleAssessment | undefined {
  const current = those.filter((entry) => !isPassedOver(entry, bundles));
  return current.findLast(needsPerson) ?? current.at(-1);
}

/**
 * Whether a release can't be completed from what was seen of it and nothing with it is plugged in:
 * everything else is spoken of before it.
 */
export function needsOtherMedium({ hold, media, badBlobs }: BundleAssessment): boolean {
  return hold === 'media' && media.length === 0 && badBlobs.length > 0;
}

/** What a release that has stepped back needs, in few words; undefined when it has not. */
export function otherMediumNote(entry: BundleAssessment, bundles: readonly BundleAssessment[]): string | undefined {
  if (!needsOtherMedium(entry)) return undefined;
  const title = titleAmong(entry.bundle, bundles);
  return flawedAmong(entry.badBlobs).length > 0
    ? `${title} needs an undamaged copy: see 'stickpin list'.`
    : `${title} is incomplete: plug in the stick that carries the rest.`;
}

/**
 * What holds a release that a person or a rollback has asked for and that was activated before.
 * Undefined when nothing does, or when something else is told of it.
 */
export function askedLine(
  those: readonly BundleAssessment[],
  { bundles }: Pick<Assessment, 'bundles'>,
): string | undefined {
  const asked = those.findLast((entry) => entry.phase !== 'ready' && isAwaited(entry) && entry.reason === undefined);
  return asked && heldLine(asked, bundles);
}

/** That a release is ready, and what comes next: a command, or why it is not activated. */
export function readyLine(entry: BundleAssessment, bundles: readonly BundleAssessment[]): string {
  const { bundle, phase, activationDue } = entry;
  const images = bundle.contents.images.length;
  const title = titleAmong(bundle, bundles);
  const name = commandNameAmong(bundle, bundles);
  if (phase === 'retired') return `${title} is retired. To use it again, run 'stickpin activate ${name}'.`;
  const held = heldLine(entry, bundles);
  if (held !== undefined) return held;
  const isAwaited = phase === 'ready' && bundle.activatedAt === undefined;
  const ready = `${title} is ready: ${formatCount(images, 'image')} present and pinned.`;
  const isChecked = entry.holds.some(({ code }) => code === 'engine/content-unchecked');
  if (activationDue && isChecked) return `${ready} They are checked, then it is activated.`;
  if (activationDue) return `${ready} Activating next.`;
  const note = stickNote(entry);
  if (entry.neededBy !== undefined) return `${title} is ${phase}. ${note}${isAwaited ? activate(name) : ''}`.trim();
  if (!isAwaited) return `${ready} It is ${phase}${isOnStick(entry) ? '; you may remove the stick.' : '.'}`;
  const line = `${ready} ${activate(name)}`;
  const noted = `${line} ${note}`.trim();
  // A command with a digest is long, and must not be cut.
  return noted.length <= MAX_LINE_LENGTH ? noted : line;
}

function activate(name: string): string {
  return `'stickpin activate ${name}' when you like.`;
}
