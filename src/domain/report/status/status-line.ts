import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
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
import { unclaimedNote } from '../events/release-events.ts';
import { briefName, briefNames, briefTitle, fitted, MAX_LINE_LENGTH, sentencesOf, titleAmong } from '../fitted.ts';
import { hookNotes } from '../parts/part-reports.ts';
import { reasonAmong, reasonText, reasonWithin } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
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
import { copyLine, mediaLine, type Progress, progressText } from './media-line.ts';

/**
 * `STATUS=` of sd_notify(3), at most 200 characters: what happens, how far it is and what comes
 * next. Work comes first, then what blocks everything, then the medium that was plugged in last,
 * then the rest. What does not fit is left out as whole sentences, the most important ones last.
 */
export function statusLine(snapshot: Snapshot, progress: Progress): string {
  const { observed, memory, assessment } = snapshot;
  const isStuck = memory.obstacle !== undefined && memory.running.length === 0;
  const media = mediaLine(observed, assessment);
  const line =
    (isStuck ? undefined : workLine(snapshot, progress)) ??
    blockedLine(snapshot) ??
    copyLine(memory, assessment) ??
    waitingLine(snapshot, media) ??
    restLine(observed, assessment);
  const alarms = alarmsOf(observed);
  const isIdle = line.startsWith('Idle. ');
  const head = isIdle && alarms.length > 0 ? [...alarms, line.replace('Idle. ', '')].join(' ') : line;
  const wrong = wrongStickNote(observed, assessment, line, line === media);
  // While nothing is trusted every stick is a wrong one: why it is so keeps its room.
  const keepsRoom = wrong !== '' && !observed.trust.revocationsUnreadable;
  const room = MAX_LINE_LENGTH - (keepsRoom ? wrong.length + 1 : 0);
  const notes = [wrong, ...(isIdle ? [] : alarms), ...stateNotes(snapshot)];
  return fitted([...sentencesOf(fitted(sentencesOf(oneLine(head)), room)), ...notes]);
}

/** What a person has to do comes before what ends by itself. */
function waitingLine({ observed, memory, assessment }: Snapshot, media: string | undefined): string | undefined {
  const { bundles } = assessment;
  const urgent = urgentAmong(bundles);
  return (
    requestedLine(urgent.length === 0 ? bundles : urgent, assessment) ??
    media ??
    (memory.contentChecks?.running && checkLine(memory.contentChecks.running)) ??
    bundleTrouble(urgent, assessment) ??
    (urgent.some(({ phase }) => phase === 'ready') ? restLine(observed, assessment) : undefined) ??
    failedMediaLine(observed) ??
    requestedLine(bundles, assessment) ??
    bundleTrouble(bundles, assessment)
  );
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
): string {
  const isRejected = (mediumId: MediumId) => !isOfMedia && rejections.some((one) => one.mediumId === mediumId);
  const isUsed = (label: string) => bundles.some((entry) => entry.media.includes(label));
  const wrong = media.findLast(
    (medium) =>
      medium.state.kind === 'failed' || isEmptyStick(medium) || (isRejected(medium.mediumId) && !isUsed(medium.label)),
  );
  if (wrong === undefined) return '';
  const name = briefName(wrong.label);
  if (line.includes(name)) return '';
  if (wrong.state.kind === 'failed') return `${name} cannot be read: see journalctl -u stickpin.`;
  return isEmptyStick(wrong)
    ? `${name} carries no bundle.`
    : `The bundle on ${name} was rejected: see 'stickpin list'.`;
}

/** Faults of keys and settings. Work may go on. */
function alarmsOf({ trust, facts }: Observed): readonly string[] {
  const { settingsFault } = facts;
  const refused = settingsFault && [`The new settings are refused: ${settingsFault}`, "See 'stickpin config check'"];
  return [trust.alarm ?? [], refused ?? []].flat().map((text) => sentence(oneLine(text)));
}

function stateNotes({ observed, memory, assessment }: Snapshot): readonly string[] {
  const { stateProblems, hooks } = memory;
  const lost = stateProblems.length === 0 ? [] : ["What was recorded is lost in part: see 'stickpin doctor'."];
  const unclaimed = unclaimedNote(assessment) ?? [];
  const ofHooks = hookNotes(hooks, assessment.bundles, observed.now);
  const ofStreams = [...assessment.paths.values()].flatMap(streamNotes);
  const wanted = wantedReleases(observed.fleet, allBundles(assessment)).map(wantedReleaseText);
  return [...lost, ...wanted, unclaimed, ...ofStreams, ofHooks].flat().map(oneLine);
}

function failedMediaLine({ media }: Observed): string | undefined {
  const failed = media.findLast((medium) => medium.state.kind === 'failed');
  if (failed?.state.kind !== 'failed') return undefined;
  const head = `Cannot read ${briefName(failed.label)}: `;
  return `${head}${reasonWithin(failed.state.reason, MAX_LINE_LENGTH - head.length)}`;
}

export function restLine(observed: Observed, { bundles, life, pins }: Assessment): string {
  const unmounted = observed.media.findLast(({ state }) => state.kind === 'unmounted');
  const behind = bundles.findLast(needsOtherMedium);
  const need = behind === undefined ? '' : ` ${otherMediumNote(behind, bundles)}`;
  const note = unmounted === undefined ? '' : ` ${sentence(unmountedText(briefName(unmounted.label)))}`;
  const waiting = foremost(
    bundles.filter((entry) => entry.phase === 'ready'),
    bundles,
  );
  if (waiting !== undefined) return `${readyLine(waiting, bundles)}${need}${note}`;
  const empty = observed.media.findLast(isEmptyStick);
  const foreign =
    empty === undefined
      ? ''
      : ` ${briefName(empty.label)} carries no bundle (no folder stickpin/NAME with a bundle.dsse.json).`;
  const activated = [...withoutOutdated(bundles)]
    .filter((entry) => entry.phase !== 'retired' && !needsOtherMedium(entry))
    .sort((a, b) => (b.bundle.activatedAt ?? 0) - (a.bundle.activatedAt ?? 0))[0];
  if (activated === undefined && behind?.reason !== undefined)
    return fitted([reasonAmong(behind.reason, behind.bundle, bundles), note.trim()]);
  if (activated === undefined) {
    const none = pins.unclaimed.length === 0 ? 'No bundle yet.' : 'No bundle is known here.';
    return `Idle. ${none}${foreign}${note || ' Waiting for media.'}`;
  }
  return `Idle. ${lifecycleLine(activated, titleAmong(activated.bundle, bundles), life)}${need}${foreign}${note || ' Waiting for media.'}`;
}

function lifecycleLine({ bundle, phase }: BundleAssessment, title: string, { soaks }: LifecycleAssessment): string {
  const images = formatCount(bundle.contents.images.length, 'image');
  if (phase === 'proven') return `${title} proven (${images} pinned).`;
  const soak = soaks.get(bundle.bundleId);
  if (phase !== 'active' || soak?.kind !== 'soaking') return `${title} ${phase} (${images} present and pinned).`;
  if (soak.lacking.length > 0)
    return `${title} active (${images} pinned), waits for ${soak.lacking.join(', ')} to run.`;
  if (soak.failing.length > 0) return `${title} active (${images} pinned), but ${soak.failing.join(', ')} failed.`;
  return `${title} active (${images} pinned), proven in about ${formatDuration(soak.remainingMs ?? 0)}.`;
}

/** The drop folder always exists, and is mostly empty. */
function isEmptyStick({ state, isDropFolder, peer }: Medium): boolean {
  return state.kind === 'read' && state.bundles.length === 0 && !isDropFolder && peer === undefined;
}

function workLine(snapshot: Snapshot, progress: Progress): string | undefined {
  const { memory, assessment } = snapshot;
  const { bundles } = assessment;
  const titleOf = (kind: 'activate' | 'restore-tags') => {
    const task = memory.running.find((one) => one.kind === kind);
    const entry = bundles.find(({ bundle }) => bundle.bundleId === task?.bundleId);
    return entry && titleAmong(entry.bundle, bundles);
  };
  const activated = titleOf('activate');
  if (activated !== undefined) return `Activating ${activated}: giving its tags to its images.`;
  const restored = titleOf('restore-tags');
  if (restored !== undefined) return `Giving lost tags of ${restored} to its images again.`;
  const entry = bundleInWork(memory, assessment);
  return entry === undefined
    ? adoptionLine(memory, assessment)
    : preloadLine(entry, titleAmong(entry.bundle, bundles), snapshot, progress);
}

function adoptionLine({ keeping }: Memory, { adoptions }: Assessment): string | undefined {
  const adoption = adoptions[0];
  if (adoption === undefined) return undefined;
  const { payload, bundleId } = adoption.found.bundle;
  if (!isRelease(adoption.found.bundle)) {
    return `${briefName(noticeTitle(payload))} on ${briefName(adoption.label)}: ${signedText(adoption.found.bundle)}. Its advisories and keys are taken next.`;
  }
  const kept = keeping.get(bundleId);
  const next = kept === undefined ? 'Preloading next.' : `Keeping its manifests: ${kept.done} of ${kept.total}.`;
  return `${briefTitle(payload)} on ${briefName(adoption.label)}: ${signedText(adoption.found.bundle)}, ${payload.totals.blobs - adoption.found.missing.length} blobs found. ${next}`;
}

function signedText({ signedBy }: Pick<VerifiedBundle, 'signedBy'>): string {
  return trustedBy({ signedBy: signedBy.length === 0 ? [] : [briefNames(signedBy, '')] });
}

function preloadLine(entry: BundleAssessment, title: string, snapshot: Snapshot, progress: Progress): string {
  const { bundle, trouble: fault, absentImages, waitsFor } = entry;
  const total = bundle.contents.images.length;
  const landed = new Set(progress.landedImages);
  const absent = absentImages.filter(({ reference }) => !landed.has(reference)).length;
  const about = { bundle: bundle.payload, images: { present: total - absent, total } };
  const inWork = (reason: Reason) => reasonAmong(reason, bundle, snapshot.assessment.bundles);
  if (waitsFor !== undefined && (progress.waitingTransfers > 0 || entry.pullableImages.length === 0))
    return inWork({ code: 'media/peer-waited-for', data: { ...about, ...waitsFor } });
  const removed = removalOf(entry, snapshot, progress);
  if (removed !== undefined) {
    const how = interruptionOf(removed.last, snapshot.observed.media);
    return inWork({ code: 'engine/no-source', data: { ...about, how } });
  }
  const present = `${total - absent}/${total} images`;
  if (progress.waitingTransfers > 0) {
    const head = `Preloading ${title} has stalled at ${present}`;
    const line = `${head}: ${briefNames(entry.media, 'the medium')} does not deliver.`;
    if (fault !== undefined) return withProblem(line, head, fault);
    return `${line} It is retried${entry.isOnPeersOnly === true ? '' : '; if that does not help, unplug the stick and plug it in again'}.`;
  }
  const sources = sourcesOf(entry);
  const from = sources.length === 0 ? '' : ` from ${briefNames(sources, '', ' and ')}`;
  const line = `Preloading ${title}${from}: ${present}, ${progressText(progress)}`;
  return fault === undefined ? line : withProblem(line, `Preloading ${title}: ${present}`, fault);
}

/** `brief`: where the line and its problem together are too long. */
function withProblem(line: string, brief: string, fault: Reason): string {
  const whole = `${sentence(line)} Problem: ${oneLine(reasonText(fault))}`;
  const head = `${sentence(brief)} Problem: `;
  return whole.length <= MAX_LINE_LENGTH ? whole : `${head}${reasonWithin(fault, MAX_LINE_LENGTH - head.length)}`;
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

function isReadable({ state }: Medium): boolean {
  return state.kind !== 'unmounted' && state.kind !== 'failed';
}
