import { defined } from '../../../platform/defined.ts';
import { capital } from '../../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { PlannedPath } from '../../activation/read-paths.ts';
import { type Assessment, allBundles } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { LEFT_OUT } from '../../fleet/node-status.ts';
import { type WantedRelease, wantedReleases } from '../../fleet/turn.ts';
import type { Medium, MediumId } from '../../model/medium.ts';
import type { LifecycleAssessment } from '../../release/lifecycle.ts';
import type { Observed, StoredBundle } from '../../state/state.ts';
import { ACTIONS, type ActionWords, type Does, isForPerson } from '../actions.ts';
import { shortCode } from '../codes.ts';
import { ownersOf } from '../events/release-events.ts';
import {
  foreignLine,
  type Line,
  type LineWords,
  needText,
  statusText,
  textAtNode,
  wholeText,
  withMore,
} from '../line.ts';
import { BRIEF, isOtherNode, isStick, type Names, namesAt, titleAmong, WHOLE } from '../names.ts';
import { hookNotes } from '../parts/part-reports.ts';
import { removeText } from '../reasons/fleet-holds.ts';
import {
  currentUnknownLine,
  failingLine,
  fleetSilentLine,
  hookFailedLine,
  keysLine,
  lostLine,
  noBundleLine,
  settingsLine,
  unclaimedLine,
  wantedLine,
  wantedWords,
} from '../reasons/node-lines.ts';
import { doesFor, reasonLine, reasonWords } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import type { StatusReport } from '../status-schema.ts';
import { streamNotes } from '../stream-report.ts';
import { checkLine } from '../texts/release-text.ts';
import { contentText, unmountedText } from '../texts/short-texts.ts';
import {
  blockedLine,
  bundleTrouble,
  foremost,
  isDecided,
  isPassedOver,
  missedAmong,
  missedLine,
  needsOtherMedium,
  otherMediumWords,
  readyLine,
  requestedLine,
  stayNote,
  urgentAmong,
  withoutOutdated,
} from './bundle-lines.ts';
import { copyLine, mediaLine, type Progress, unreadableNote } from './media-line.ts';
import { isActOfPerson, type StickUse, settled, stickUse } from './stick-use.ts';
import { tagLine, workLine } from './work-line.ts';

/**
 * Returns `STATUS=`: the action of a person, then the present work, its progress and the next step.
 */
export function statusLine(snapshot: Snapshot, progress: Progress): string {
  return statusText(lineOf(snapshot, progress), namesAt(BRIEF, snapshot.observed.media));
}

/** Like {@link statusLine}, whole and in its parts. */
export function adviceOf(snapshot: Snapshot, progress: Progress): StatusReport['advice'] {
  const line = lineOf(snapshot, progress);
  const { does, code } = line;
  const { action, words, afterwards }: ActionWords = ACTIONS[does];
  const names = namesAt(WHOLE, snapshot.observed.media);
  return defined({
    action,
    words,
    code: code && shortCode(code),
    text: wholeText(line, names),
    atNode: textAtNode(line, names),
    stay: stayBeside(does, snapshot) || undefined,
    afterwards,
  });
}

function stayBeside(does: Does, { assessment }: Snapshot): string {
  return ACTIONS[does].action === 'leave-in' ? '' : stayNote(assessment);
}

/**
 * Work comes first, then an obstacle for everything. Needs of a person come before faults that end
 * automatically: about a release, about the medium that was plugged in last, about the node.
 */
function lineOf(snapshot: Snapshot, progress: Progress): Line {
  const { observed, memory, assessment } = snapshot;
  const wrongSettings = observed.facts.keepsOnly === true ? settingsLine(observed.facts) : undefined;
  if (wrongSettings !== undefined) return wrongSettings;
  const use = stickUse(snapshot, progress);
  const isStuck = memory.obstacle !== undefined && memory.running.length === 0;
  const media = mediaLine(observed, assessment);
  const chosen =
    (isStuck ? undefined : workLine(snapshot, progress)) ??
    blockingLine(snapshot, media) ??
    copyLine(memory, assessment) ??
    waitingLine(snapshot, media, use) ??
    restLine(observed, assessment);
  return withNotes(settled(chosen, use, observed.media), snapshot, chosen === media);
}

/** Obstacles that end automatically come after those that only a person ends. */
function blockingLine(snapshot: Snapshot, media: Line | undefined): Line | undefined {
  const blocked = blockedLine(snapshot);
  if (blocked === undefined || isForPerson(blocked.does)) return blocked;
  // The line of a release that waits for the same thing would add nothing.
  const isOther = ({ does, code }: Line) => isForPerson(does) && code !== blocked.code;
  return personLines(snapshot, media, blocked).find(isOther) ?? blocked;
}

function waitingLine(snapshot: Snapshot, media: Line | undefined, use: StickUse): Line | undefined {
  const { observed, memory, assessment } = snapshot;
  const { bundles } = assessment;
  if (media?.stick === 'stays') return media;
  const checks = memory.contentChecks?.running;
  const usual = restLine(observed, assessment);
  return (
    personLines(snapshot, media, usual).find((line) => isActOfPerson(settled(line, use).does)) ??
    tagLine(snapshot) ??
    requestedLine(bundles, assessment) ??
    media ??
    (checks && { does: 'wait', says: () => ({ what: checkLine(checks) }) }) ??
    bundleTrouble(
      bundles.filter((entry) => !isDecided(entry)),
      assessment,
    )
  );
}

/** Returns lines for a person, the most important first. @param usual the line of other facts */
function personLines(snapshot: Snapshot, media: Line | undefined, usual: Line): readonly Line[] {
  const { observed, assessment } = snapshot;
  const { bundles } = assessment;
  const urgent = urgentAmong(bundles);
  const ready = foremost(
    urgent.filter(({ phase }) => phase === 'ready'),
    bundles,
  );
  const missed = media && missedAmong(bundles);
  const wanted = missed && missedLine(missed, bundles);
  const faults = [emptyStickLine(observed), ...nodeLines(snapshot)];
  const lines = [
    media &&
      missed &&
      wanted &&
      (media.stick === 'free' ? removedFirst(media, missed, bundles) : withMore(wanted, media)),
    media?.does === 'decided' ? undefined : media,
    requestedLine(urgent, assessment),
    bundleTrouble(urgent, assessment),
    ready && readyLine(ready, bundles),
    failedMediaLine(observed),
    ...faults.map((line) => line && withMore(line, usual)),
    behindLine(bundles, usual),
    // A decided bundle is history.
    media?.does === 'decided' ? media : undefined,
  ];
  return lines.flatMap((line) => line ?? []);
}

/** The plugged stick may be removed, and a release waits for another one. */
function removedFirst(media: Line, { bundle, reason }: BundleAssessment, bundles: readonly BundleAssessment[]): Line {
  const which = reason && doesFor(reason) === 'plug-in-other' ? 'another stick' : 'the stick';
  const code = reason === undefined ? '' : ` (${shortCode(reason.code)})`;
  const says = (names: Names) => {
    const words = media.says(names);
    const then = `Then plug in ${which} of ${titleAmong(bundle, bundles, names)}${code}`;
    return { ...words, notes: [then, ...(words.notes ?? [])] };
  };
  return { ...media, does: isForPerson(media.does) ? media.does : 'remove', says };
}

/** Names a release that no known medium completes, before faults that end automatically. */
function behindLine(bundles: readonly BundleAssessment[], usual: Line): Line | undefined {
  const behind = bundles.findLast((entry) => needsOtherMedium(entry) && !isPassedOver(entry, bundles));
  const line = behind && missedLine(behind, bundles);
  return line === undefined || isForPerson(usual.does) ? undefined : withMore(line, usual);
}

/** Adds other faults, as far as there is room. */
function withNotes(line: Line, snapshot: Snapshot, isOfMedia: boolean): Line {
  const { observed, assessment } = snapshot;
  const others = nodeLines(snapshot).filter(({ code }) => code !== line.code);
  const says = (names: Names) => {
    const words = line.says(names);
    const stay = stayBeside(line.does, snapshot);
    const wrong = wrongStickNotes(observed, assessment, words, isOfMedia, names);
    // While nothing is trusted every stick is a wrong one, so the reason keeps its room.
    const isKept = !observed.trust.revocationsUnreadable;
    const notes = [...(words.notes ?? []), ...(stay === '' ? [] : [stay]), ...(isKept ? wrong : [])];
    const also = [
      ...(words.also ?? []),
      ...(isKept ? [] : wrong),
      ...others.map((one) => needText(one, names)),
      ...plainNotes(snapshot),
    ];
    return { ...words, notes, also };
  };
  return { ...line, says };
}

/** Names the last useless stick, if the line does not. */
function wrongStickNotes(
  { media }: Observed,
  { bundles, rejections }: Assessment,
  { what }: LineWords,
  isOfMedia: boolean,
  names: Names,
): readonly string[] {
  const isRejected = (mediumId: MediumId) => !isOfMedia && rejections.some((one) => one.mediumId === mediumId);
  const isUsed = (label: string) => bundles.some((entry) => entry.media.includes(label));
  const wrong = media.findLast(
    (medium) =>
      !isOtherNode(medium) &&
      (medium.state.kind === 'failed' ||
        isEmptyStick(medium) ||
        (isRejected(medium.mediumId) && !isUsed(medium.label))),
  );
  if (wrong === undefined) return [];
  const name = names.medium(wrong.label);
  if (what.includes(name)) return [];
  if (wrong.state.kind === 'failed') return [unreadableNote(name)];
  return [isEmptyStick(wrong) ? `${name} carries no bundle` : `The bundle on ${name} was rejected`];
}

/** Returns faults of the node itself that only a person ends: keys and settings first. */
export function nodeLines({ observed, memory, assessment }: Snapshot): readonly Line[] {
  const { alarm } = observed.trust;
  const settings = settingsLine(observed.facts);
  const keys = observed.fleet?.keys?.trouble;
  const { failed } = hookNotes(memory.hooks, assessment.bundles, observed.now);
  const { unclaimed, unclaimedReleases } = assessment.pins;
  const isUnknown = ({ position }: PlannedPath) => position === undefined;
  return [
    ...(alarm === undefined ? [] : [foreignLine({ does: 'call-support', code: alarm.code }, '', alarm.message)]),
    ...(settings === undefined ? [] : [settings]),
    ...(memory.stateProblems.length === 0 ? [] : [lostLine()]),
    ...(observed.isFleetSilent ? [fleetSilentLine()] : []),
    ...(keys === undefined ? [] : [keysLine(keys)]),
    ...wantedReleases(observed.fleet, allBundles(assessment)).filter(isBelieved).map(wantedLine),
    ...(unclaimed.length === 0 ? [] : [unclaimedLine(unclaimed.length, ownersOf(unclaimedReleases))]),
    ...[...assessment.paths.values()].filter(isUnknown).flatMap(streamNotes).map(currentUnknownLine),
    ...(failed === undefined ? [] : [hookFailedLine(failed)]),
  ];
}

function plainNotes({ observed, memory, assessment }: Snapshot): readonly string[] {
  const { running } = hookNotes(memory.hooks, assessment.bundles, observed.now);
  const known = [...assessment.paths.values()].filter(({ position }) => position !== undefined);
  const claimed = wantedReleases(observed.fleet, allBundles(assessment)).filter((one) => !isBelieved(one));
  const claims = claimed.flatMap((one) => {
    const { what, next, why = '' } = wantedWords(one);
    return [what, capital(next), why, removeText(one.nodes[0] ?? '')];
  });
  return [...known.flatMap(streamNotes), ...running, ...claims, ...otherNodeNotes(observed, assessment)];
}

/** A single node may lie, so it sends nobody for a stick. */
function isBelieved({ nodes }: WantedRelease): boolean {
  return nodes.length > 1;
}

/** Faults of other nodes come after all of this node. */
function otherNodeNotes({ media }: Observed, { rejections }: Assessment): readonly string[] {
  return media.filter(isOtherNode).flatMap(({ mediumId, label, state }) => {
    const rejected = rejections.filter((one) => one.mediumId === mediumId);
    const why = state.kind === 'failed' ? state.reason : rejected.at(-1)?.reason;
    if (why === undefined) return [];
    const isAll = state.kind === 'failed' || why.code === LEFT_OUT;
    const what = isAll ? 'Nothing is taken' : `${formatCount(rejected.length, 'bundle')} not taken`;
    return [`${what} from ${label} (${shortCode(why.code)}). ${removeText(label)}`];
  });
}

function failedMediaLine({ media }: Observed): Line | undefined {
  const failed = media.findLast((medium) => medium.state.kind === 'failed' && !isOtherNode(medium));
  return failed && unreadableLine(failed);
}

export function unreadableLine({ label, peer, state }: Medium): Line | undefined {
  if (state.kind !== 'failed' || isOtherNode({ label, peer })) return undefined;
  const { reason } = state;
  const says = (names: Names) => {
    const words = reasonWords(reason, names);
    const what = `Cannot read ${names.medium(label)}: ${words.what}`;
    return { ...words, what, atNode: words.atNode ?? what };
  };
  return { does: doesFor(reason), code: reason.code, says };
}

function emptyStickLine({ media }: Observed): Line | undefined {
  const empty = media.findLast(isEmptyStick);
  return empty && noBundleLine(empty);
}

export function restLine(observed: Observed, { bundles, life, pins }: Assessment): Line {
  const unmounted = observed.media.findLast(({ state }) => state.kind === 'unmounted');
  const isAwaited = bundles.some(({ phase }) => phase === 'held' || phase === 'preloading');
  const behind = bundles.findLast((entry) => needsOtherMedium(entry) && !isPassedOver(entry, bundles));
  const need = (names: Names) => {
    const words = behind && otherMediumWords(behind, titleAmong(behind.bundle, bundles, names));
    return words === undefined ? [] : [words.what, words.next ?? '', words.run ?? ''].filter((text) => text !== '');
  };
  const gone = (names: Names) =>
    unmounted === undefined ? [] : [unmountedText(names.medium(unmounted.label), isAwaited)];
  const followed = (line: Line, more: (names: Names) => readonly string[]): Line => ({
    ...line,
    says: (names) => {
      const words = line.says(names);
      return { ...words, also: [...(words.also ?? []), ...more(names)] };
    },
  });
  const waiting = foremost(
    bundles.filter((entry) => entry.phase === 'ready' && !isDecided(entry)),
    bundles,
  );
  if (waiting !== undefined) return followed(readyLine(waiting, bundles), (names) => [...need(names), ...gone(names)]);
  const activated = [...withoutOutdated(bundles)]
    .filter((entry) => entry.phase !== 'retired' && !needsOtherMedium(entry) && !isDecided(entry))
    .sort((a, b) => (b.bundle.activatedAt ?? 0) - (a.bundle.activatedAt ?? 0))[0];
  if (activated === undefined && behind?.reason !== undefined)
    return followed(reasonLine(behind.reason, behind.bundle, bundles), gone);
  const end = (names: Names) => (unmounted === undefined ? ['Waiting for a stick'] : gone(names));
  const decided = bundles.findLast(isDecided);
  if (activated === undefined && decided?.reason !== undefined)
    return reasonLine(decided.reason, decided.bundle, bundles);
  if (activated === undefined) {
    const what = pins.unclaimed.length === 0 ? 'No bundle yet' : 'No bundle is known';
    return followed({ does: 'idle', says: () => ({ what }) }, end);
  }
  return followed(lifecycleLine(activated, bundles, life), (names) => [...need(names), ...end(names)]);
}

function lifecycleLine(
  { bundle, phase }: BundleAssessment,
  bundles: readonly BundleAssessment[],
  { soaks }: LifecycleAssessment,
): Line {
  const content = contentText(bundle);
  const images = contentText(bundle, 'pinned');
  const about = (what: string): Line => ({
    does: 'idle',
    says: (names) => ({ what: `${titleAmong(bundle, bundles, names)} ${what}` }),
  });
  if (phase === 'proven') return about(`proven (${images}).`);
  const soak = soaks.get(bundle.bundleId);
  if (phase !== 'active' || soak?.kind !== 'soaking') return about(`${phase} (${content}).`);
  if (soak.lacking.length > 0) return about(`active (${images}), waits for ${soak.lacking.join(', ')} to run.`);
  const remaining = formatDuration(soak.remainingMs ?? 0);
  return failingIn(bundle, bundles, soak) ?? about(`active (${images}), proven in about ${remaining}.`);
}

/** Describes releases in use whose containers fail. */
export function failingLines({ assessment: { bundles, life } }: Snapshot): readonly Line[] {
  return bundles.flatMap(({ bundle, phase }) => {
    const soak = life.soaks.get(bundle.bundleId);
    return phase === 'active' && soak?.kind === 'soaking' ? (failingIn(bundle, bundles, soak) ?? []) : [];
  });
}

function failingIn(
  bundle: StoredBundle,
  bundles: readonly BundleAssessment[],
  { lacking, failing }: { readonly lacking: readonly string[]; readonly failing: readonly string[] },
): Line | undefined {
  if (lacking.length > 0 || failing.length === 0) return undefined;
  const images = formatCount(bundle.contents.images.length, 'image');
  return failingLine((names) => titleAmong(bundle, bundles, names), images, failing);
}

/** The drop folder always exists, and is mostly empty. */
export function isEmptyStick({ state, ...medium }: Medium): boolean {
  return isStick(medium) && state.kind === 'read' && state.bundles.length === 0;
}
