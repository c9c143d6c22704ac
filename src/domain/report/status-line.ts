import { clip, oneLine, sentence } from '../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../platform/sizes.ts';
import type { Rejection } from '../adoption/unknown-bundles.ts';
import type { Assessment, NoticeAssessment } from '../assess/assess.ts';
import type { BundleAssessment } from '../assess/assess-bundle.ts';
import { unsupportedReason } from '../assess/runtime-support.ts';
import { bundleInWork } from '../decide/activation.ts';
import { bundleTitle } from '../model/bundle.ts';
import type { Medium, MediumId } from '../model/medium.ts';
import { isRecordingTrouble, isStateDamage } from '../preload/disk-trouble.ts';
import type { LifeAssessment } from '../release/lifecycle.ts';
import { flawedAmong } from '../state/bad-blob.ts';
import { interruptionOf, type LastCarrier } from '../state/last-carrier.ts';
import type { Memory } from '../state/memory.ts';
import type { Observed } from '../state/state.ts';
import { isRelease } from '../trust/notice.ts';
import { copyLine } from './copy-line.ts';
import { unclaimedNote } from './events/pin-events.ts';
import { heldReason } from './hold-text.ts';
import { commandNameAmong, messageAmong, titleAmong } from './namesake.ts';
import { progressText, type Progress as TransferProgress } from './progress-text.ts';
import { interruptionText, unmountedText } from './reasons/media-text.ts';
import { reasonText } from './reasons/reason-text.ts';
import type { Snapshot } from './snapshot.ts';
import { noticeEffect, noticeTitle, trustedBy } from './texts/bundle-text.ts';
import { runtimeAway } from './texts/runtime-away.ts';
import { sourcesOf } from './texts/sources.ts';

/** How the preload that STATUS speaks of goes. */
export interface Progress extends TransferProgress {
  /** Transfers that have waited for their medium for some seconds. */
  readonly waitingTransfers: number;
  /** Images that were pulled since the runtime was last asked for its images. Default none. */
  readonly landedImages?: readonly string[];
}

/** Longest line, in characters. What is longer was made longer by a foreign error, and is cut. */
const MAX_LENGTH = 500;
/** Longest reason in a line that goes on after it. */
const MAX_REASON_LENGTH = 330;
/** Longest line to which something is added. */
const NOTED_LENGTH = 300;
/**
 * The one line that tells a technician what goes on, how far it is and what comes next: `STATUS=`
 * of sd_notify(3). Work comes first, then what keeps everything from going on, then the medium that
 * was plugged in last, then the rest.
 */
export function statusLine(snapshot: Snapshot, progress: Progress): string {
  const { observed, memory, assessment } = snapshot;
  const isStuck = memory.obstacle !== undefined && memory.running.length === 0;
  const line =
    (isStuck ? undefined : workLine(snapshot, progress)) ??
    blockedLine(snapshot) ??
    copyLine(memory, assessment) ??
    mediaLine(observed, assessment) ??
    bundleTrouble(assessment.bundles, assessment) ??
    failedMediaLine(observed) ??
    restLine(observed, assessment);
  return clip(oneLine(withStateNotes(line, memory, assessment)), MAX_LENGTH);
}

/** Adds what is wrong with our own state, as far as there is room. */
function withStateNotes(line: string, { stateProblems }: Memory, assessment: Assessment): string {
  const lost = stateProblems.length === 0 ? [] : ["What was recorded is lost in part: see 'stickpin doctor'."];
  const unclaimed = unclaimedNote(assessment) ?? [];
  return [...lost, unclaimed].flat().reduce((told, note) => {
    const longer = `${sentence(told)} ${note}`;
    return longer.length <= MAX_LENGTH ? longer : told;
  }, line);
}

function workLine(snapshot: Snapshot, progress: Progress): string | undefined {
  const { memory, assessment } = snapshot;
  const activating = memory.running.find((task) => task.kind === 'activate');
  const target = assessment.bundles.find((entry) => entry.bundle.bundleId === activating?.bundleId);
  if (target !== undefined)
    return `Activating ${titleAmong(target.bundle, assessment.bundles)}: giving its tags to its images.`;
  const restoring = memory.running.find((task) => task.kind === 'restore-tags');
  const robbed = assessment.bundles.find((entry) => entry.bundle.bundleId === restoring?.bundleId);
  if (robbed !== undefined)
    return `Giving lost tags of ${titleAmong(robbed.bundle, assessment.bundles)} to its images again.`;
  const entry = bundleInWork(memory, assessment);
  return entry === undefined
    ? adoptionLine(memory, assessment)
    : preloadLine(entry, titleAmong(entry.bundle, assessment.bundles), snapshot, progress);
}

function adoptionLine({ keeping }: Memory, { adoptions }: Assessment): string | undefined {
  const adoption = adoptions[0];
  if (adoption === undefined) return undefined;
  const { payload, bundleId } = adoption.found.bundle;
  if (!isRelease(adoption.found.bundle)) {
    return `${noticeTitle(payload)} on ${adoption.label}: ${trustedBy(adoption.found.bundle)}. Its advisories and keys are taken next.`;
  }
  const kept = keeping.get(bundleId);
  const next = kept === undefined ? 'Preloading next.' : `Keeping its manifests: ${kept.done} of ${kept.total}.`;
  return `${bundleTitle(payload)} on ${adoption.label}: ${trustedBy(adoption.found.bundle)}, ${payload.totals.blobs - adoption.found.missing.length} blobs found. ${next}`;
}

function preloadLine(entry: BundleAssessment, title: string, snapshot: Snapshot, progress: Progress): string {
  const { bundle, trouble: fault, absentImages } = entry;
  const total = bundle.contents.images.length;
  const landed = new Set(progress.landedImages);
  const absent = absentImages.filter(({ reference }) => !landed.has(reference)).length;
  const present = `${total - absent}/${total} images`;
  const removed = removalOf(entry, snapshot, progress);
  if (removed !== undefined)
    return interruptionText(title, present, interruptionOf(removed.last, snapshot.observed.media));
  if (progress.waitingTransfers > 0) {
    const next =
      fault === undefined
        ? 'It is tried again; if that does not help, unplug the stick and plug it in again.'
        : `Problem: ${reasonText(fault)}`;
    const labels = entry.media.join(', ') || 'the medium';
    return `Preloading ${title} has stalled at ${present}: ${labels} does not deliver. ${next}`;
  }
  const sources = sourcesOf(entry);
  const from = sources.length === 0 ? '' : ` from ${sources.join(' and ')}`;
  const trouble = fault === undefined ? '' : `. Problem: ${reasonText(fault)}`;
  return `Preloading ${title}${from}: ${present}, ${progressText(progress)}${trouble}`;
}

/**
 * Whether the preload waits for a medium that is not plugged in any more, and what is known of that
 * one; undefined when it does not.
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
  // What carried it last may be the medium that is still plugged in.
  return { last: isAlone ? last : undefined };
}

function isReadable({ state }: Medium): boolean {
  return state.kind !== 'unmounted' && state.kind !== 'failed';
}

/** What keeps every bundle from going on. */
function blockedLine({ observed, memory, assessment }: Snapshot): string | undefined {
  const { runtime, trust } = observed;
  const { obstacle } = memory;
  const { bundles, adoptions } = assessment;
  if (trust.revocationsUnreadable && trust.require !== 'approval') {
    const cause = trust.cause ?? "see 'stickpin doctor'";
    return `Nothing is trusted, since revocations can't be read: ${sentence(cause)} What is pinned stays.`;
  }
  const waiting = bundles.find((entry) => entry.phase === 'held' && entry.badBlobs.length === 0);
  const waits = waiting === undefined ? '' : ` ${titleAmong(waiting.bundle, bundles)} waits for it.`;
  if (runtime.kind !== 'reachable') {
    const { what, next } = runtimeAway(runtime);
    return `${what}${waits} ${next}`;
  }
  const tooOld = unsupportedReason(runtime);
  if (tooOld !== undefined) return `${reasonText(tooOld)}${waits}`;
  if (obstacle === undefined) return undefined;
  if (!isRecordingTrouble(obstacle)) return `${sentence(obstacle.message)} It is retried automatically.`;
  const [awaited] = adoptions;
  const what =
    awaited === undefined ? '' : ` ${bundleTitle(awaited.found.bundle.payload)} on ${awaited.label} waits for it.`;
  const next = isStateDamage(obstacle) ? '' : ' stickpin continues automatically.';
  return `${sentence(obstacle.message)}${what}${next}`;
}

/** About the medium that was plugged in last and has something to tell. */
function mediaLine(observed: Observed, assessment: Assessment): string | undefined {
  for (const { mediumId, label, isDropFolder, state } of [...observed.media].reverse()) {
    if (!isDropFolder && (state.kind === 'attached' || state.kind === 'mounted')) return `Looking at ${label}.`;
    const carried = withoutOutdated(assessment.bundles.filter((entry) => isCarriedBy(entry, observed, mediumId)));
    const newest = carried.at(-1);
    if (newest !== undefined)
      return withNotes(
        bundleTrouble(carried, assessment) ?? readyLine(newest, assessment.bundles),
        observed,
        assessment,
        mediumId,
      );
    const awaiting = assessment.awaiting.findLast((entry) => entry.mediumId === mediumId);
    if (awaiting !== undefined) return sentence(reasonText(awaiting.reason));
    const refused = assessment.rejections.filter((rejection) => rejection.mediumId === mediumId);
    if (refused.length > 0) return rejectionLine(refused);
    const notice = assessment.notices.findLast((entry) => isCarriedBy(entry, observed, mediumId));
    if (notice !== undefined) return noticeLine(notice, label);
  }
  return undefined;
}

function noticeLine({ bundle, withdrawn, taken }: NoticeAssessment, label: string): string {
  if (withdrawn !== undefined) return sentence(reasonText(withdrawn));
  return `${noticeTitle(bundle.payload)} on ${label}: ${noticeEffect(taken)}. You may remove the stick.`;
}

function isCarriedBy({ bundle }: Pick<BundleAssessment, 'bundle'>, { media }: Observed, mediumId: MediumId): boolean {
  const state = media.find((medium) => medium.mediumId === mediumId)?.state;
  if (state?.kind !== 'read') return false;
  return state.bundles.some((found) => found.kind === 'verified' && found.bundle.bundleId === bundle.bundleId);
}

function rejectionLine(rejections: readonly Rejection[]): string {
  const rejection = rejections.at(-1);
  const more = rejections.length > 1 ? ` (and ${rejections.length - 1} more)` : '';
  const reason = clip(oneLine(rejection === undefined ? '' : reasonText(rejection.reason)), MAX_REASON_LENGTH);
  return `Rejected ${rejection?.name ?? 'bundle'} on ${rejection?.label}: ${reason}${more}; see 'stickpin list' and journalctl -u stickpin -x`;
}

/** Why the newest of these bundles can't go on, or what went wrong with it last. */
function bundleTrouble(those: readonly BundleAssessment[], { bundles }: Assessment): string | undefined {
  const spoken = withoutOutdated(those).filter((entry) => !isSteppedBack(entry));
  const entry = spoken.findLast(({ reason }) => reason !== undefined) ?? spoken.findLast(({ trouble }) => trouble);
  const reason = entry?.reason ?? entry?.trouble;
  return entry && reason && messageAmong(reasonText(reason), entry.bundle, bundles);
}

/**
 * Those that have something to say: what was rolled back has not, once a newer release of its
 * stream is among them.
 */
function withoutOutdated(those: readonly BundleAssessment[]): readonly BundleAssessment[] {
  const kept = those.filter(({ phase }) => phase !== 'retired').map(({ bundle }) => bundle.payload);
  return those.filter(
    ({ reason, bundle: { payload } }) =>
      reason?.code !== 'engine/rolled-back' ||
      kept.every(({ name, sequence }) => name !== payload.name || sequence <= payload.sequence),
  );
}

/** Adds in few words what the line about one medium would hide, as far as there is room. */
function withNotes(line: string, { media }: Observed, { bundles, rejections }: Assessment, spoken: MediumId): string {
  const notes = media.flatMap(({ mediumId, label, state }) => {
    if (state.kind === 'failed') return [`${label} cannot be read: see journalctl -u stickpin.`];
    const count = rejections.filter((rejection) => rejection.mediumId === mediumId).length;
    if (count === 0) return [];
    const other = mediumId === spoken ? 'other ' : '';
    const what = count === 1 ? `1 ${other}bundle` : `${count} ${other}bundles`;
    return [`${what} on ${label} ${count === 1 ? 'was' : 'were'} rejected: see 'stickpin list'.`];
  });
  const troubled = bundles.filter((entry) => entry.media.length === 0 && entry.reason !== undefined);
  const first = troubled.find((entry) => !isSteppedBack(entry)) ?? troubled[0];
  if (first !== undefined)
    notes.push(
      steppedBackNote(first, bundles) ?? `${titleAmong(first.bundle, bundles)} needs attention: see 'stickpin list'.`,
    );
  return notes.reduce((told, note) => {
    const longer = `${sentence(told)} ${note}`;
    return longer.length <= NOTED_LENGTH ? longer : told;
  }, line);
}

/**
 * Whether a release can't be completed from what was seen of it and nothing with it is plugged in:
 * everything else is spoken of before it.
 */
function isSteppedBack({ hold, media, badBlobs }: BundleAssessment): boolean {
  return hold === 'media' && media.length === 0 && badBlobs.length > 0;
}

/** What a release that has stepped back needs, in few words; undefined when it has not. */
function steppedBackNote(entry: BundleAssessment, bundles: readonly BundleAssessment[]): string | undefined {
  if (!isSteppedBack(entry)) return undefined;
  const title = titleAmong(entry.bundle, bundles);
  return flawedAmong(entry.badBlobs).length > 0
    ? `${title} needs an undamaged copy: see 'stickpin list'.`
    : `${title} is incomplete: plug in the stick that carries the rest.`;
}

function failedMediaLine({ media }: Observed): string | undefined {
  const failed = media.findLast((medium) => medium.state.kind === 'failed');
  return failed?.state.kind === 'failed' ? `Cannot read ${failed.label}: ${failed.state.reason.message}` : undefined;
}

/** What runs, and what it still needs to count as proven. */
function lifeLine({ bundle, phase }: BundleAssessment, title: string, { soaks }: LifeAssessment): string {
  const images = formatCount(bundle.contents.images.length, 'image');
  if (phase === 'proven') return `${title} proven (${images} pinned).`;
  const soak = soaks.get(bundle.bundleId);
  if (phase !== 'active' || soak?.kind !== 'soaking') return `${title} ${phase} (${images} present and pinned).`;
  if (soak.lacking.length > 0)
    return `${title} active (${images} pinned), waits for ${soak.lacking.join(', ')} to run.`;
  if (soak.failing.length > 0) return `${title} active (${images} pinned), but ${soak.failing.join(', ')} failed.`;
  return `${title} active (${images} pinned), proven in about ${formatDuration(soak.remainingMs ?? 0)}.`;
}

function restLine(observed: Observed, { bundles, life, pins }: Assessment): string {
  const unmounted = observed.media.findLast(({ state }) => state.kind === 'unmounted');
  const behind = bundles.findLast(isSteppedBack);
  const ask = behind === undefined ? '' : ` ${steppedBackNote(behind, bundles)}`;
  const note = unmounted === undefined ? '' : ` ${sentence(unmountedText(unmounted))}`;
  const waiting = bundles.findLast((entry) => entry.phase === 'ready');
  if (waiting !== undefined) return `${readyLine(waiting, bundles)}${ask}${note}`;
  const empty = observed.media.findLast(isEmptyStick);
  const foreign =
    empty === undefined ? '' : ` ${empty.label} carries no bundle (no folder stickpin/NAME with a bundle.dsse.json).`;
  const activated = [...withoutOutdated(bundles)]
    .filter((entry) => entry.phase !== 'retired' && !isSteppedBack(entry))
    .sort((a, b) => (b.bundle.activatedAt ?? 0) - (a.bundle.activatedAt ?? 0))[0];
  if (activated === undefined && behind?.reason !== undefined)
    return `${messageAmong(sentence(reasonText(behind.reason)), behind.bundle, bundles)}${note}`;
  if (activated === undefined) {
    const none = pins.unclaimed.length === 0 ? 'No bundle yet.' : 'No bundle is known here.';
    return `Idle. ${none}${foreign}${note || ' Waiting for media.'}`;
  }
  return `Idle. ${lifeLine(activated, titleAmong(activated.bundle, bundles), life)}${ask}${foreign}${note || ' Waiting for media.'}`;
}

/** The drop folder is there all the time, and mostly empty. */
function isEmptyStick({ state, isDropFolder }: Medium): boolean {
  return state.kind === 'read' && state.bundles.length === 0 && !isDropFolder;
}

function readyLine(entry: BundleAssessment, bundles: readonly BundleAssessment[]): string {
  const { bundle, phase, media, activationDue } = entry;
  const images = bundle.contents.images.length;
  const title = titleAmong(bundle, bundles);
  const name = commandNameAmong(bundle, bundles);
  if (phase === 'retired') return `${title} is retired. To use it again, run 'stickpin activate ${name}'.`;
  const held = heldReason(entry);
  if (held !== undefined) {
    const message = messageAmong(held.message, bundle, bundles);
    return `${title} is ready: ${formatCount(images, 'image')} present and pinned. ${sentence(message)}`;
  }
  const isAwaited = phase === 'ready' && bundle.activatedAt === undefined;
  const next = isAwaited
    ? `'stickpin activate ${name}' when you like.`
    : `It is ${phase}${media.length > 0 ? '; you may remove the stick.' : '.'}`;
  return `${title} is ready: ${formatCount(images, 'image')} present and pinned. ${activationDue ? 'Activating next.' : next}`;
}
