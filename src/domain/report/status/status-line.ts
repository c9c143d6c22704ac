import { defined } from '../../../platform/defined.ts';
import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { PlannedPath } from '../../activation/read-paths.ts';
import { type Assessment, allBundles } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleInWork } from '../../decide/release-effects.ts';
import { wantedReleases } from '../../fleet/turn.ts';
import type { VerifiedBundle } from '../../model/bundle.ts';
import type { Medium, MediumId } from '../../model/medium.ts';
import type { Reason } from '../../model/reason.ts';
import type { LifecycleAssessment } from '../../release/lifecycle.ts';
import { interruptionOf, type LastCarrier, type Memory, mediumReadAgain } from '../../state/memory.ts';
import type { Observed } from '../../state/state.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { ACTIONS, isForPerson } from '../actions.ts';
import { doesAbout, shortCode } from '../codes.ts';
import { unclaimedNote } from '../events/release-events.ts';
import { fitted, type Names, sentencesOf, titleAmong, withShortDigests } from '../fitted.ts';
import { hookNotes } from '../parts/part-reports.ts';
import { doesFor, reasonLine, reasonText, reasonWithin } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import type { StatusReport } from '../status-schema.ts';
import { streamNotes } from '../stream-report.ts';
import { checkLine } from '../texts/release-text.ts';
import { noticeTitle, sourcesOf, trustedBy, unmountedText, wantedReleaseText } from '../texts/short-texts.ts';
import {
  blockedLine,
  bundleTrouble,
  foremost,
  needsOtherMedium,
  otherMediumNote,
  readyLine,
  requestedLine,
  urgentAmong,
  withoutOutdated,
} from './bundle-lines.ts';
import { bodyOf, foreignLine, headOf, type Line, NARROW, narrowed, WIDE, type Width } from './line.ts';
import { copyLine, mediaLine, type Progress, progressText, unreadableNote } from './media-line.ts';
import { isActOfPerson, isStick, type StickUse, settled, stickUse } from './stick-use.ts';

/**
 * `STATUS=` of sd_notify(3), at most 200 characters: what a person does, then what happens, how far
 * it is and what comes next. What does not fit is left out as whole sentences, the most important
 * ones last.
 */
export function statusLine(snapshot: Snapshot, progress: Progress): string {
  const line = lineOf(snapshot, progress);
  const head = headOf(line);
  return `${head}${line.text(narrowed(NARROW, head.length))}`;
}

/** As {@link statusLine}, whole and in its parts. */
export function adviceOf(snapshot: Snapshot, progress: Progress): StatusReport['advice'] {
  const { does, code, text } = lineOf(snapshot, progress);
  const { action, words } = ACTIONS[does];
  return defined({ action, words, code: code && shortCode(code), text: text(WIDE) });
}

/**
 * Work comes first, then what blocks everything. What a person must do comes before what ends by
 * itself: about a release, about the medium that was plugged in last, about the node.
 */
function lineOf(snapshot: Snapshot, progress: Progress): Line {
  const { observed, memory, assessment } = snapshot;
  const use = stickUse(snapshot, progress);
  const isStuck = memory.obstacle !== undefined && memory.running.length === 0;
  const media = mediaLine(observed, assessment);
  const chosen =
    (isStuck ? undefined : workLine(snapshot, progress)) ??
    blockingLine(snapshot) ??
    copyLine(memory, assessment) ??
    waitingLine(snapshot, media, use) ??
    restLine(observed, assessment);
  return withNotes(settled(chosen, use), snapshot, chosen === media);
}

/** What ends by itself comes behind faults of the node that only a person ends. */
function blockingLine(snapshot: Snapshot): Line | undefined {
  const blocked = blockedLine(snapshot);
  if (blocked === undefined || isForPerson(blocked.does)) return blocked;
  const fault = nodeLines(snapshot).find(({ does }) => isForPerson(does));
  return fault === undefined ? blocked : followedBy(fault, blocked);
}

function waitingLine(snapshot: Snapshot, media: Line | undefined, use: StickUse): Line | undefined {
  const { observed, memory, assessment } = snapshot;
  const { bundles } = assessment;
  if (media?.stick === 'stays') return media;
  const urgent = urgentAmong(bundles);
  const ready = foremost(
    urgent.filter(({ phase }) => phase === 'ready'),
    bundles,
  );
  const checks = memory.contentChecks?.running;
  const rest = restLine(observed, assessment);
  const forPerson = [
    requestedLine(urgent, assessment),
    media,
    bundleTrouble(urgent, assessment),
    ready && readyLine(ready, bundles),
    failedMediaLine(observed),
    ...[emptyStickLine(observed), ...nodeLines(snapshot)].map((line) => line && followedBy(line, rest)),
    behindLine(bundles, rest),
  ];
  return (
    forPerson.find((line) => line !== undefined && isActOfPerson(settled(line, use).does)) ??
    requestedLine(bundles, assessment) ??
    media ??
    (checks && { does: 'wait', text: () => checkLine(checks) }) ??
    bundleTrouble(bundles, assessment)
  );
}

/** A release that no seen medium completes, before what ends by itself. */
function behindLine(bundles: readonly BundleAssessment[], rest: Line): Line | undefined {
  const behind = bundles.findLast(needsOtherMedium);
  const reason = behind?.reason;
  if (behind === undefined || reason === undefined || isForPerson(rest.does)) return undefined;
  const text = ({ names }: Width) => otherMediumNote(behind, titleAmong(behind.bundle, bundles, names)) ?? '';
  return followedBy({ does: doesFor(reason), code: reason.code, text }, rest);
}

function followedBy(line: Line, next: Line): Line {
  const text = (width: Width) => {
    const first = line.text(width);
    const others = next.text({ ...WIDE, names: width.names }).replace(first, '');
    return fitted([first, ...sentencesOf(oneLine(others))], width.room);
  };
  return { ...line, text };
}

/** Adds what else is wrong, as far as there is room. */
function withNotes(line: Line, snapshot: Snapshot, isOfMedia: boolean): Line {
  const { observed, assessment } = snapshot;
  const text = (width: Width) => {
    const wrong = wrongStickNote(observed, assessment, bodyOf(line, width), isOfMedia, width);
    // While nothing is trusted every stick is a wrong one: why it is so keeps its room.
    const keepsRoom = wrong !== '' && !observed.trust.revocationsUnreadable;
    const room = width.room - (keepsRoom ? wrong.length + 1 : 0);
    const head = bodyOf(line, { ...width, room });
    const others = nodeLines(snapshot).filter(({ code }) => code !== line.code);
    const notes = [wrong, ...others.map((one) => one.text(WIDE)), ...plainNotes(snapshot)];
    return fitted([...sentencesOf(fitted(sentencesOf(oneLine(head)), room)), ...notes], width.room);
  };
  return { ...line, text };
}

/**
 * Names the last stick that brings nothing, where the line does not: this always has room. Empty
 * when there is none.
 */
function wrongStickNote(
  { media }: Observed,
  { bundles, rejections }: Assessment,
  line: string,
  isOfMedia: boolean,
  { names }: Width,
): string {
  const isRejected = (mediumId: MediumId) => !isOfMedia && rejections.some((one) => one.mediumId === mediumId);
  const isUsed = (label: string) => bundles.some((entry) => entry.media.includes(label));
  const wrong = media.findLast(
    (medium) =>
      medium.state.kind === 'failed' || isEmptyStick(medium) || (isRejected(medium.mediumId) && !isUsed(medium.label)),
  );
  if (wrong === undefined) return '';
  const name = names.name(wrong.label);
  if (line.includes(name)) return '';
  if (wrong.state.kind === 'failed') return unreadableNote(name);
  return isEmptyStick(wrong)
    ? `${name} carries no bundle.`
    : `The bundle on ${name} was rejected: see 'stickpin list'.`;
}

/** What only a person ends on the node itself: keys and settings first. Work may go on. */
export function nodeLines({ observed, memory, assessment }: Snapshot): readonly Line[] {
  const { settingsFault } = observed.facts;
  const { alarm } = observed.trust;
  const line = (code: string, text: string): Line => ({ does: doesAbout(code), code, text: () => oneLine(text) });
  const { failed } = hookNotes(memory.hooks, assessment.bundles, observed.now);
  const unclaimed = unclaimedNote(assessment);
  const isUnknown = ({ position }: PlannedPath) => position === undefined;
  return [
    ...(alarm === undefined ? [] : [foreignLine({ does: 'call-support', code: alarm.code }, '', alarm.message)]),
    ...(settingsFault === undefined
      ? []
      : [
          foreignLine(
            { does: 'call-support', code: 'config/refused' },
            'The new settings are refused: ',
            settingsFault,
            ["See 'stickpin config check'."],
          ),
        ]),
    ...(memory.stateProblems.length === 0
      ? []
      : [line('engine/lost-in-part', "What was recorded is lost in part: see 'stickpin doctor'.")]),
    ...wantedReleases(observed.fleet, allBundles(assessment)).map((one) =>
      line('fleet/wanted', wantedReleaseText(one)),
    ),
    ...(unclaimed === undefined ? [] : [line('engine/unclaimed', unclaimed)]),
    ...[...assessment.paths.values()]
      .filter(isUnknown)
      .flatMap(streamNotes)
      .map((note) => line('engine/current-unknown', note)),
    ...(failed === undefined ? [] : [line('engine/hook-failed', failed)]),
  ];
}

function plainNotes({ observed, memory, assessment }: Snapshot): readonly string[] {
  const { running } = hookNotes(memory.hooks, assessment.bundles, observed.now);
  const known = [...assessment.paths.values()].filter(({ position }) => position !== undefined);
  return [...known.flatMap(streamNotes), ...running].map(oneLine);
}

function failedMediaLine({ media }: Observed): Line | undefined {
  const failed = media.findLast((medium) => medium.state.kind === 'failed');
  return failed && unreadableLine(failed);
}

export function unreadableLine({ label, state }: Medium): Line | undefined {
  if (state.kind !== 'failed') return undefined;
  const { reason } = state;
  const text = ({ room, names }: Width) => {
    const head = `Cannot read ${names.name(label)}: `;
    return `${head}${reasonWithin(reason, room - head.length)}`;
  };
  return { does: doesFor(reason), code: reason.code, text };
}

function emptyStickLine({ media }: Observed): Line | undefined {
  const empty = media.findLast(isEmptyStick);
  return empty && noBundleLine(empty);
}

export function noBundleLine({ label }: Medium): Line {
  const code = 'media/no-bundle';
  const text = ({ names }: Width) =>
    `${names.name(label)} carries no bundle (no folder stickpin/NAME with a bundle.dsse.json).`;
  return { does: doesAbout(code), code, text };
}

export function restLine(observed: Observed, { bundles, life, pins }: Assessment): Line {
  const unmounted = observed.media.findLast(({ state }) => state.kind === 'unmounted');
  const behind = bundles.findLast(needsOtherMedium);
  const need = ({ names }: Width) =>
    behind === undefined ? '' : (otherMediumNote(behind, titleAmong(behind.bundle, bundles, names)) ?? '');
  const gone = ({ names }: Width) =>
    unmounted === undefined ? '' : sentence(unmountedText(names.name(unmounted.label)));
  const waiting = foremost(
    bundles.filter((entry) => entry.phase === 'ready'),
    bundles,
  );
  if (waiting !== undefined) {
    const line = readyLine(waiting, bundles);
    return { ...line, text: (width) => fitted([line.text(width), need(width), gone(width)], width.room) };
  }
  const activated = [...withoutOutdated(bundles)]
    .filter((entry) => entry.phase !== 'retired' && !needsOtherMedium(entry))
    .sort((a, b) => (b.bundle.activatedAt ?? 0) - (a.bundle.activatedAt ?? 0))[0];
  if (activated === undefined && behind?.reason !== undefined) {
    const line = reasonLine(behind.reason, behind.bundle, bundles);
    return { ...line, text: (width) => fitted([line.text(width), gone(width)], width.room) };
  }
  const end = (width: Width) => gone(width) || 'Waiting for a stick.';
  if (activated === undefined) {
    const none = pins.unclaimed.length === 0 ? 'No bundle yet.' : 'No bundle is known.';
    return { does: 'idle', text: (width) => `${none} ${end(width)}` };
  }
  const line = lifecycleLine(activated, bundles, life);
  return { ...line, text: (width) => fitted([line.text(width), need(width), end(width)], width.room) };
}

function lifecycleLine(
  { bundle, phase }: BundleAssessment,
  bundles: readonly BundleAssessment[],
  { soaks }: LifecycleAssessment,
): Line {
  const images = formatCount(bundle.contents.images.length, 'image');
  const about = (rest: string): Line => ({
    does: 'idle',
    text: ({ names }) => `${titleAmong(bundle, bundles, names)} ${rest}`,
  });
  if (phase === 'proven') return about(`proven (${images} pinned).`);
  const soak = soaks.get(bundle.bundleId);
  if (phase !== 'active' || soak?.kind !== 'soaking') return about(`${phase} (${images} present and pinned).`);
  if (soak.lacking.length > 0) return about(`active (${images} pinned), waits for ${soak.lacking.join(', ')} to run.`);
  if (soak.failing.length === 0)
    return about(`active (${images} pinned), proven in about ${formatDuration(soak.remainingMs ?? 0)}.`);
  const failing = about(`active (${images} pinned), but ${soak.failing.join(', ')} failed.`);
  return { ...failing, does: 'call-support', code: 'engine/components-failing' };
}

function workLine(snapshot: Snapshot, progress: Progress): Line | undefined {
  const { memory, assessment } = snapshot;
  const { bundles } = assessment;
  for (const { kind, bundleId } of memory.running) {
    const entry = kind === 'pull' ? undefined : bundles.find(({ bundle }) => bundle.bundleId === bundleId);
    if (entry === undefined) continue;
    const title = ({ names }: Width) => titleAmong(entry.bundle, bundles, names);
    const text = (width: Width) =>
      kind === 'activate'
        ? `Activating ${title(width)}: giving its tags to its images.`
        : `Giving lost tags of ${title(width)} to its images again.`;
    return { does: 'wait', text, stick: 'stays' };
  }
  const entry = bundleInWork(memory, assessment);
  return entry === undefined ? adoptionLine(memory, assessment) : preloadLine(entry, snapshot, progress);
}

function adoptionLine({ keeping }: Memory, { adoptions }: Assessment): Line | undefined {
  const adoption = adoptions[0];
  if (adoption === undefined) return undefined;
  const { bundle, missing } = adoption.found;
  const { payload, bundleId } = bundle;
  const kept = keeping.get(bundleId);
  const next = kept === undefined ? 'Preloading next.' : `Keeping its manifests: ${kept.done} of ${kept.total}.`;
  const text = ({ names }: Width) => {
    const title = isRelease(bundle) ? names.title(payload) : names.name(noticeTitle(payload));
    const head = `${title} on ${names.name(adoption.label)}: ${signedText(bundle, names)}`;
    return isRelease(bundle)
      ? `${head}, ${payload.totals.blobs - missing.length} blobs found. ${next}`
      : `${head}. Its advisories and keys are taken next.`;
  };
  return { does: 'wait', text, stick: 'stays' };
}

function signedText({ signedBy }: Pick<VerifiedBundle, 'signedBy'>, names: Names): string {
  return trustedBy({ signedBy: signedBy.length === 0 ? [] : [names.list(signedBy, '')] });
}

function preloadLine(entry: BundleAssessment, snapshot: Snapshot, progress: Progress): Line {
  const { bundle, trouble: fault, absentImages, waitsFor, isOnPeersOnly } = entry;
  const { bundles } = snapshot.assessment;
  const total = bundle.contents.images.length;
  const landed = new Set(progress.landedImages);
  const absent = absentImages.filter(({ reference }) => !landed.has(reference)).length;
  const about = { bundle: bundle.payload, images: { present: total - absent, total } };
  const inWork = (reason: Reason) => reasonLine(reason, bundle, bundles);
  if (waitsFor !== undefined && (progress.waitingTransfers > 0 || entry.pullableImages.length === 0))
    return inWork({ code: 'media/peer-waited-for', data: { ...about, ...waitsFor } });
  const removed = removalOf(entry, snapshot, progress);
  if (removed !== undefined) {
    const how = interruptionOf(removed.last, snapshot.observed.media);
    return inWork({ code: 'engine/no-source', data: { ...about, how } });
  }
  const present = `${total - absent}/${total} images`;
  const title = (names: Names) => titleAmong(bundle, bundles, names);
  const stick = isOnPeersOnly === true ? undefined : 'stays';
  if (progress.waitingTransfers > 0) {
    const retry = isOnPeersOnly === true ? '' : '; if that does not help, unplug the stick and plug it in again';
    const text = ({ room, names }: Width) => {
      const head = `Preloading ${title(names)} has stalled at ${present}`;
      const line = `${head}: ${names.list(entry.media, 'the medium')} does not deliver.`;
      return fault === undefined ? `${line} It is retried${retry}.` : withProblem(line, head, fault, room);
    };
    return { does: 'wait', code: fault?.code ?? 'engine/stalled', text, stick };
  }
  const sources = sourcesOf(entry);
  const text = ({ room, names }: Width) => {
    const from = sources.length === 0 ? '' : ` from ${names.list(sources, '', ' and ')}`;
    const line = `Preloading ${title(names)}${from}: ${present}, ${progressText(progress)}`;
    return fault === undefined ? line : withProblem(line, `Preloading ${title(names)}: ${present}`, fault, room);
  };
  return { does: 'wait', code: fault?.code, text, stick };
}

/** `brief`: where the line and its problem together are too long. */
function withProblem(line: string, brief: string, fault: Reason, room: number): string {
  const whole = withShortDigests(`${sentence(line)} Problem: ${oneLine(reasonText(fault))}`);
  const head = `${sentence(brief)} Problem: `;
  return whole.length <= room ? whole : `${head}${reasonWithin(fault, room - head.length)}`;
}

/**
 * The last medium of a preload that waits for it, as far as that is known; undefined when it does
 * not wait.
 */
function removalOf(
  { bundle, media, pullableImages, absentImages }: BundleAssessment,
  { observed, memory }: Snapshot,
  { waitingTransfers }: Progress,
): { readonly last: LastCarrier | undefined } | undefined {
  const isPlugged = (label: string) => observed.media.some((medium) => medium.label === label && isReadable(medium));
  const gone = media.filter((label) => !isPlugged(label));
  const pullable = new Set(pullableImages.map(({ reference }) => reference));
  const absent = new Set(absentImages.map(({ reference }) => reference));
  // What runs and could not be begun now has lost the medium of its layers, though another one with
  // the bundle is plugged in.
  const isCut = memory.running.some(
    (task) =>
      task.kind === 'pull' &&
      task.bundleId === bundle.bundleId &&
      absent.has(task.reference) &&
      !pullable.has(task.reference),
  );
  const isWaiting = waitingTransfers > 0 && (gone.length > 0 || isCut);
  const isAlone = gone.length === media.length && (media.length > 0 || pullableImages.length === 0);
  if (!isWaiting && !isAlone) return undefined;
  const last = memory.lastCarriers.get(bundle.bundleId);
  if (isAlone && mediumReadAgain(last, observed.media) !== undefined) return undefined;
  // What carried it last may be the medium that is still plugged in.
  return { last: isAlone ? last : undefined };
}

/** The drop folder always exists, and is mostly empty. */
export function isEmptyStick({ state, ...medium }: Medium): boolean {
  return isStick(medium) && state.kind === 'read' && state.bundles.length === 0;
}

function isReadable({ state }: Medium): boolean {
  return state.kind !== 'unmounted' && state.kind !== 'failed';
}
