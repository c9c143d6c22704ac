import { onceFor } from '../../../platform/once-for.ts';
import { clip } from '../../../platform/plain-text.ts';
import { formatCount } from '../../../platform/sizes.ts';
import type { ActivationHold } from '../../activation/gates.ts';
import { sequenceOf } from '../../adoption/floors.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { unsupportedReason } from '../../assess/derive-phase.ts';
import type { Reason } from '../../model/reason.ts';
import { isRecordingTrouble, isStateDamage } from '../../preload/space.ts';
import { currentRelease, isRolledBack, keptBundles } from '../../release/recorded-phase.ts';
import { flawedAmong } from '../../state/checks.ts';
import { isFolder } from '../../state/memory.ts';
import { bundlesIn, ofStream, type StoredBundle } from '../../state/state.ts';
import { ACTIONS, type Does, isForPerson } from '../actions.ts';
import { doesAbout, meaningOf } from '../codes.ts';
import {
  doesAboutHold,
  holdWords,
  isAwaited,
  isRuleHold,
  isWithoutCommand,
  reportedHold,
  shownHolds,
} from '../hold-text.ts';
import { foreignLine, type Line, type LineWords } from '../line.ts';
import { commandNameAmong, type KeptBundles, type Names, titleAmong } from '../names.ts';
import { endsAlone } from '../reasons/holds.ts';
import { blindLine, retiredLine, runtimeAway } from '../reasons/node-lines.ts';
import { doesFor, reasonLine } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import { contentText, timeText } from '../texts/short-texts.ts';

const SEE_LIST = "See 'stickpin list'";

/** Returns why the newest of these bundles can't continue, or its last failure. */
export function bundleTrouble(those: readonly BundleAssessment[], { bundles }: Assessment): Line | undefined {
  const spoken = withoutOutdated(those).filter((entry) => !needsOtherMedium(entry) && !isPassedOver(entry, bundles));
  const stopped = spoken.filter(({ reason }) => reason !== undefined);
  const entry = stopped.findLast(needsPerson) ?? stopped.at(-1) ?? spoken.findLast(({ trouble }) => trouble);
  const reason = entry?.reason ?? entry?.trouble;
  if (entry === undefined || reason === undefined) return undefined;
  const stick = isDecided(entry) ? freeOn(entry) : undefined;
  return { ...reasonLine(reason, entry.bundle, bundles), does: doesOf(entry, reason), stick };
}

/**
 * A failure of one other node sends nobody for a stick: that node may be hostile, and it is
 * retried.
 */
export function doesOf(entry: BundleAssessment, reason: Reason): Does {
  const does = doesFor(reason);
  if (entry.isOnPeersOnly === true && reason.code === 'engine/stalled') return 'wait';
  const isFirst = entry.bundle.readyAt === undefined && ACTIONS[does].action === 'plug-in';
  return isFirst && entry.isOfOnePeer === true ? 'wait' : does;
}

/** Leaves out rolled back releases if the list has a newer one of their stream. */
export function withoutOutdated(those: readonly BundleAssessment[]): readonly BundleAssessment[] {
  const newest = new Map<string, number>();
  for (const { bundle, phase } of those) {
    if (phase === 'retired') continue;
    const { name } = bundle.payload;
    newest.set(name, Math.max(newest.get(name) ?? 0, sequenceOf(bundle)));
  }
  return those.filter(
    ({ reason, bundle }) =>
      reason?.code !== 'engine/rolled-back' || (newest.get(bundle.payload.name) ?? 0) <= sequenceOf(bundle),
  );
}

/**
 * Whether a newer release of its stream was activated instead, and nobody has requested it since.
 * Then its hold concerns no person.
 */
export function isPassedOver(entry: BundleAssessment, bundles: readonly BundleAssessment[]): boolean {
  const { bundle, phase, reason, activationDue, isRequested } = entry;
  if (bundle.activatedAt !== undefined || activationDue || isRequested === true) return false;
  if (phase !== 'held' && (phase !== 'ready' || reason !== undefined)) return false;
  return newestActivated(ofStream(bundlesIn(bundles), bundle.payload.name)) > sequenceOf(bundle);
}

const newestActivated = onceFor((bundles: readonly StoredBundle[]) =>
  Math.max(
    0,
    ...keptBundles(bundles).flatMap((one) =>
      one.activatedAt === undefined || isRolledBack(one) ? [] : [sequenceOf(one)],
    ),
  ),
);

/** Whether a release waits for a person, not for a time or something on the node. */
function needsPerson(entry: BundleAssessment): boolean {
  if (entry.reason !== undefined) return isForPerson(doesOf(entry, entry.reason));
  return isAwaited(entry) && shownHolds(entry).some((hold) => isForPerson(doesAboutHold(hold)));
}

/** Whether an administrator decided its fate. That is history, and no trouble. */
export function isDecided({ reason }: BundleAssessment): boolean {
  return reason !== undefined && doesFor(reason) === 'decided';
}

/** Returns bundles that wait for a person. A line names them first. */
export function urgentAmong(bundles: readonly BundleAssessment[]): readonly BundleAssessment[] {
  return withoutOutdated(bundles).filter(
    (entry) => needsPerson(entry) && !needsOtherMedium(entry) && !isPassedOver(entry, bundles),
  );
}

/** Returns the last one that waits for a person, else the last one. */
export function foremost(
  those: readonly BundleAssessment[],
  bundles: readonly BundleAssessment[],
): BundleAssessment | undefined {
  const current = those.filter((entry) => !isPassedOver(entry, bundles));
  return current.findLast(needsPerson) ?? current.at(-1);
}

/**
 * Whether no known copy completes a release, and no plugged medium has it. It comes last in every
 * line.
 */
export function needsOtherMedium({ hold, media, badBlobs }: BundleAssessment): boolean {
  return hold === 'media' && media.length === 0 && badBlobs.length > 0;
}

/**
 * Returns a release that waits for a stick, while no plugged stick carries it or a newer release of
 * its stream. Then the plugged stick is the wrong one.
 */
export function missedAmong(bundles: readonly BundleAssessment[]): BundleAssessment | undefined {
  const isReplaced = ({ payload }: StoredBundle) =>
    bundles.some(
      ({ bundle, media }) =>
        media.length > 0 && bundle.payload.name === payload.name && bundle.payload.sequence > payload.sequence,
    );
  return withoutOutdated(bundles).findLast(
    (entry) =>
      (entry.phase === 'held' || entry.phase === 'preloading' || isInForce(entry, bundles)) &&
      entry.reason !== undefined &&
      entry.media.length === 0 &&
      ACTIONS[doesOf(entry, entry.reason)].action === 'plug-in' &&
      !isPassedOver(entry, bundles) &&
      !isReplaced(entry.bundle),
  );
}

function isInForce({ bundle }: BundleAssessment, bundles: readonly BundleAssessment[]): boolean {
  return currentRelease(bundlesIn(bundles), bundle.payload.name) === bundle;
}

/** Says in one line what the release waits for. */
export function missedLine(entry: BundleAssessment, bundles: readonly BundleAssessment[]): Line | undefined {
  const { reason, bundle } = entry;
  if (reason === undefined) return undefined;
  const does = doesOf(entry, reason);
  if (!needsOtherMedium(entry)) return { ...reasonLine(reason, bundle, bundles), does };
  const says = (names: Names) => otherMediumWords(entry, titleAmong(bundle, bundles, names)) ?? { what: '' };
  return { does, code: reason.code, says };
}

/** @returns undefined when the release needs no other medium */
export function otherMediumWords(entry: BundleAssessment, title: string): LineWords | undefined {
  if (!needsOtherMedium(entry)) return undefined;
  return flawedAmong(entry.badBlobs).length > 0
    ? { what: `${title} needs an undamaged copy`, run: SEE_LIST }
    : { what: `${title} is incomplete`, next: 'Plug in the stick that carries the rest' };
}

/**
 * Returns the hold of a release that was activated before and is requested again. Undefined when
 * nothing holds it, or when that is reported elsewhere.
 */
export function requestedLine(those: readonly BundleAssessment[], { bundles }: Assessment): Line | undefined {
  const requested = those.findLast((entry) => entry.phase !== 'ready' && isAwaited(entry) && !entry.reason);
  return requested && heldLine(requested, bundles);
}

export function readyLine(entry: BundleAssessment, bundles: readonly BundleAssessment[]): Line {
  return arrivingLine(entry, bundles) ?? heldLine(entry, bundles) ?? loadedLine(entry, bundles);
}

/** Describes a release that is not complete. */
function arrivingLine(entry: BundleAssessment, bundles: readonly BundleAssessment[]): Line | undefined {
  const { bundle, phase, absentArtifacts } = entry;
  const title = (names: Names) => titleAmong(bundle, bundles, names);
  if (phase === 'retired') {
    const command = `'stickpin activate ${commandNameAmong(bundle, bundles)}'`;
    const isOfPerson = isOnStick(entry) && entry.media.some((label) => !isFolder({ label }));
    return retiredLine(title, command, isOfPerson ? needNotes(entry) : undefined);
  }
  if (phase !== 'preloading' || absentArtifacts.length === 0) return undefined;
  const total = bundle.contents.artifacts?.length ?? 0;
  const copied = `${total - absentArtifacts.length}/${formatCount(total, 'artifact')}`;
  const says = (names: Names) => ({ what: `${title(names)} is copied to this node: ${copied}` });
  return { does: 'wait', says, stick: staysOn(entry) };
}

function loadedLine(entry: BundleAssessment, bundles: readonly BundleAssessment[]): Line {
  const { bundle, phase, activationDue } = entry;
  const count = bundle.contents.artifacts?.length ?? 0;
  const beside = count === 0 ? '' : `, ${formatCount(count, 'artifact')} kept`;
  const images = `${contentText(bundle)}${beside}`;
  const title = (names: Names) => titleAmong(bundle, bundles, names);
  const loaded = (names: Names) => `${title(names)} is loaded: ${images}`;
  if (activationDue) {
    const isChecked = entry.holds.some(({ code }) => code === 'engine/content-unchecked');
    const next = isChecked ? 'They are checked, then it is activated' : 'Activating next';
    return { does: 'wait', says: (names) => ({ what: loaded(names), next }), stick: staysOn(entry) };
  }
  const stick = freeOn(entry);
  const notes = needNotes(entry);
  if (phase === 'ready' && bundle.activatedAt === undefined) {
    const [hold, ...others] = shownHolds(entry);
    const stuck = [hold, ...others].find((one) => one !== undefined && isStuck(one));
    if (stuck !== undefined) return lineOfHold(entry, stuck, bundles);
    if (hold !== undefined && [hold, ...others].every(endsAlone)) {
      const says = (names: Names) => ({ what: loaded(names), next: `It waits: ${holdWords(hold, names).what}`, notes });
      return { does: 'wait', says, stick };
    }
    const run = `To activate it: 'stickpin activate ${commandNameAmong(bundle, bundles)}'`;
    return { does: 'done-admin', says: (names) => ({ what: loaded(names), run, notes }), stick };
  }
  const isOfStream = (one: BundleAssessment) => one.bundle.payload.name === bundle.payload.name;
  const later = bundles.find((one) => one.bundle !== bundle && isOfStream(one) && isInForce(one, bundles));
  const installed = (names: Names) =>
    later === undefined
      ? `${title(names)} is installed`
      : `${title(names)} is not needed: ${titleAmong(later.bundle, bundles, names)} is installed`;
  const says = (names: Names) => ({ what: installed(names), notes, next: `It is ${phase}: ${images}` });
  return { does: 'done', says, stick };
}

export function blockedLine({ observed, memory, assessment }: Snapshot): Line | undefined {
  const { runtime, trust } = observed;
  const { obstacle } = memory;
  const { bundles, adoptions } = assessment;
  if (trust.revocationsUnreadable && trust.require !== 'approval') {
    return blindLine(trust.cause);
  }
  const waiting = bundles.find((entry) => entry.phase === 'held' && entry.badBlobs.length === 0);
  const waits = (names: Names) =>
    waiting === undefined ? [] : [`${titleAmong(waiting.bundle, bundles, names)} waits for it`];
  if (runtime.kind !== 'reachable') {
    const { code, what, next } = runtimeAway(runtime);
    const isBrief = runtime.kind === 'unreachable' && runtime.isBrief === true;
    const says = (names: Names) => ({ what, atNode: meaningOf(code), run: next, details: waits(names) });
    return { does: isBrief ? 'wait' : doesAbout(code), code, says };
  }
  const tooOld = unsupportedReason(runtime);
  if (tooOld !== undefined) {
    const line = reasonLine(tooOld);
    const says = (names: Names) => ({ ...line.says(names), also: waits(names) });
    return { ...line, does: 'call-support', says };
  }
  if (obstacle === undefined) return undefined;
  const does: Does = memory.isObstacleBrief === true ? 'wait' : doesAbout(obstacle.code);
  const about = { does, code: obstacle.code };
  if (!isRecordingTrouble(obstacle)) {
    const retried = ACTIONS[does].action === 'plug-in' ? [] : ['It is retried automatically'];
    return foreignLine(about, '', obstacle.message, retried);
  }
  const [awaited] = adoptions;
  const line = foreignLine(about, '', obstacle.message);
  const says = (names: Names) => ({
    ...line.says(names),
    details: [
      ...(awaited === undefined
        ? []
        : [`${names.title(awaited.found.bundle.payload)} on ${names.medium(awaited.label)} waits for it`]),
      ...(isStateDamage(obstacle) ? [] : ['stickpin continues automatically once that is mended']),
    ],
  });
  return { ...line, says };
}

/**
 * The title and the hold come first, then whether the stick must stay. `stickpin list` has the
 * whole reason. Undefined when no hold concerns a person.
 */
export function heldLine(entry: BundleAssessment, bundles: KeptBundles): Line | undefined {
  const hold = reportedHold(entry);
  return hold && lineOfHold(entry, hold, bundles);
}

/** Whether a person must do more than activate the release. */
function isStuck(hold: ActivationHold): boolean {
  return hold.code !== 'engine/manual' && !endsAlone(hold);
}

function lineOfHold(entry: BundleAssessment, hold: ActivationHold, bundles: KeptBundles): Line {
  const { bundle } = entry;
  const command = `'stickpin activate ${commandNameAmong(bundle, bundles)}'`;
  const says = (names: Names) => {
    const again = bundle.activatedAt === undefined ? '' : ' again';
    const head = `${titleAmong(bundle, bundles, names)} is loaded, not activated${again}`;
    const { what, details = [], ...words } = holdWords(hold, names);
    const total = bundle.contents.images.length;
    const absent = entry.absentImages.length;
    const images = absent === 0 ? contentText(bundle) : `${total - absent}/${total} images present and pinned`;
    return {
      ...words,
      what: `${head}: ${what}`,
      notes: needNotes(entry),
      details: [...adviceFor(hold, command), ...details, images],
    };
  };
  return { does: doesAboutHold(hold), code: hold.code, says, stick: freeOn(entry) };
}

/** Only a person ends these holds, but not at this node. */
const STOPS: ReadonlySet<string> = new Set<ActivationHold['code']>(['fleet/failed', 'fleet/no-canary', 'fleet/labels']);

function adviceFor(hold: ActivationHold, command: string): readonly string[] {
  if (isWithoutCommand(hold)) return [];
  const isAutomatic = hold.gate === 'fleet' ? !STOPS.has(hold.code) : isRuleHold(hold);
  if (!isAutomatic || hold.releasedBy === 'person') return [`To activate it anyway: ${command}`];
  return [`It is activated automatically; without waiting: ${command}`];
}

function isOnStick({ media, isOnPeersOnly }: Carried): boolean {
  return media.length > 0 && isOnPeersOnly !== true;
}

function staysOn(entry: Carried): Line['stick'] {
  return isOnStick(entry) ? 'stays' : undefined;
}

function freeOn(entry: Carried): Line['stick'] {
  return isOnStick(entry) ? 'free' : undefined;
}

/** Returns why the stick must stay. Empty when it need not. */
function needNotes(entry: Carried): readonly string[] {
  return isOnStick(entry) ? [...partitionTexts(entry), ...needTexts(entry)] : [];
}

function partitionTexts({ partition }: Carried): readonly string[] {
  if (partition === undefined) return [];
  const [first = '', ...others] = partition.nodes;
  const which = `${clip(first, 48)}${others.length === 0 ? '' : ` and ${others.length} more`}`;
  const since = timeText(partition.since);
  return [`No other node answers since ${since} (${which}): check the network and TCP port 9777.`];
}

function needTexts({ neededBy }: Pick<BundleAssessment, 'neededBy'>): readonly string[] {
  if (neededBy === undefined) return [];
  if (neededBy === 'unknown') return ['stickpin-fleet.service does not say who needs the stick.'];
  return [`${neededBy.loading} of ${neededBy.all} nodes still load from the stick.`];
}

/** Notes that other nodes load from a stick, whatever else a person must do. May be empty. */
export function stayNote({ bundles, rejections }: Pick<Assessment, 'bundles' | 'rejections'>): string {
  const onStick = bundles.filter(isOnStick);
  const [note] = [...onStick, ...rejections].flatMap(needTexts);
  return note === undefined ? '' : `Leave the stick in: ${note}`;
}

type Carried = Pick<BundleAssessment, 'media' | 'isOnPeersOnly' | 'neededBy' | 'partition'>;
