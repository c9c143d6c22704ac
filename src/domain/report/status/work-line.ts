import { capital } from '../../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleInWork, isCut } from '../../decide/release-effects.ts';
import type { VerifiedBundle } from '../../model/bundle.ts';
import type { Medium } from '../../model/medium.ts';
import type { Reason } from '../../model/reason.ts';
import {
  interruptionOf,
  type LastCarrier,
  type Memory,
  mediumReadAgain,
  type RunningTask,
} from '../../state/memory.ts';
import type { Observed } from '../../state/state.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { isForPerson } from '../actions.ts';
import { doesAbout } from '../codes.ts';
import type { Line, LineWords } from '../line.ts';
import { isStick, type Names, titleAmong } from '../names.ts';
import { doesFor, reasonLine, reasonWords } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import { noticeTitle, sourcesOf, trustedBy } from '../texts/short-texts.ts';
import { doesOf } from './bundle-lines.ts';
import { type Progress, progressText } from './media-line.ts';
import { sticksInUse } from './stick-use.ts';

/** Describes the present work of the daemon. */
export function workLine(snapshot: Snapshot, progress: Progress): Line | undefined {
  const { observed, memory, assessment } = snapshot;
  const { bundles } = assessment;
  const activated = activeIn(snapshot, 'activate');
  if (activated !== undefined) {
    const says = (names: Names) => ({ what: `Activating ${titleAmong(activated.bundle, bundles, names)}` });
    return { does: 'wait', says, stick: 'stays' };
  }
  const entry = bundleInWork(memory, assessment);
  // Needs of another stick come before a stick that was removed.
  const isOther = sticksInUse(observed.media).length > 0;
  if (entry !== undefined && !(isOther && isWithoutMedium(entry, observed))) {
    return preloadLine(entry, snapshot, progress);
  }
  return adoptionLine(memory, assessment) ?? syncLine(memory, assessment);
}

/** Moving tags takes a moment, and no stick. */
export function tagLine(snapshot: Snapshot): Line | undefined {
  const { bundles } = snapshot.assessment;
  const entry = activeIn(snapshot, 'restore-tags');
  if (entry === undefined) return undefined;
  const what = (names: Names) =>
    `Repairing ${titleAmong(entry.bundle, bundles, names)}: names of its images are set again`;
  return { does: 'wait', says: (names) => ({ what: what(names) }) };
}

function activeIn({ memory, assessment }: Snapshot, kind: RunningTask['kind']): BundleAssessment | undefined {
  const ids = memory.running.flatMap((task) => (task.kind === kind ? [task.bundleId] : []));
  return assessment.bundles.find(({ bundle }) => ids.includes(bundle.bundleId));
}

/** Nothing is promised before a sync has ended. */
function syncLine({ storage }: Memory, { bundles }: Assessment): Line | undefined {
  const entry = bundles.find(({ unsyncedImages }) => unsyncedImages.length > 0);
  if (storage?.runningMs === undefined || storage.failure !== undefined || entry === undefined) return undefined;
  const images = formatCount(entry.unsyncedImages.length, 'image');
  const since = storage.runningMs < SYNC_SHOWN_MS ? '' : ` for ${formatDuration(storage.runningMs)} so far`;
  const says = (names: Names) => ({
    what: `Writing ${images} of ${titleAmong(entry.bundle, bundles, names)} to the disk${since}`,
    next: 'Do not switch the node off',
  });
  return { does: 'wait', code: 'runtime/sync-pending', says, stick: 'stays' };
}

/** Shorter syncs are not shown: no person notices them. */
const SYNC_SHOWN_MS = 1_000;

function adoptionLine({ keeping }: Memory, { adoptions }: Assessment): Line | undefined {
  const adoption = adoptions[0];
  if (adoption === undefined) return undefined;
  const { bundle, missing } = adoption.found;
  const { payload, bundleId } = bundle;
  const kept = keeping.get(bundleId);
  const next = kept === undefined ? 'Preloading next' : 'Its list of images is read before they are loaded';
  const says = (names: Names) => {
    const title = isRelease(bundle) ? names.title(payload) : names.name(noticeTitle(payload));
    const head = `${title} on ${names.medium(adoption.label)}: ${signedText(bundle, names)}`;
    return isRelease(bundle)
      ? { what: `${head}, ${foundText(payload.totals.blobs, missing.length)}`, next }
      : { what: head, next: 'Its advisories and keys are taken next' };
  };
  return { does: 'wait', says, stick: 'stays' };
}

function foundText(total: number, missing: number): string {
  return missing === 0 ? `${total} blobs found` : `only ${total - missing} of ${total} blobs found`;
}

function signedText({ signedBy }: VerifiedBundle, names: Names): string {
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
  const isUseless = fault !== undefined && isInVain(entry, fault, snapshot);
  const removed = isUseless ? undefined : removalOf(entry, snapshot, progress);
  if (removed !== undefined) {
    const how = interruptionOf(removed.last, snapshot.observed.media);
    return inWork({ code: 'engine/no-source', data: { ...about, how } });
  }
  const present = `${total - absent}/${total} images`;
  const title = (names: Names) => titleAmong(bundle, bundles, names);
  const problem = (names: Names) => (fault === undefined ? lackOf(entry, names) : problemOf(fault, names));
  const isOfStick = snapshot.observed.media.some((one) => isStick(one) && entry.blobMedia.includes(one.label));
  if (progress.isStalled === true) {
    const says = (names: Names) => ({
      what: `Preloading ${title(names)} has stalled at ${present}: ${names.media(entry.blobMedia, 'the medium')} does not deliver`,
      next: isOfStick ? 'It is retried; if it stalls again, try another port' : 'It is retried',
      ...problem(names),
    });
    const code = 'engine/stalled';
    return { does: isOfStick ? doesAbout(code) : 'wait', code, says };
  }
  const sources = sourcesOf(entry);
  const head = (names: Names) => {
    const from = sources.length === 0 ? '' : ` from ${names.media(sources, '', ' and ')}`;
    return `Preloading ${title(names)}${from}`;
  };
  const does = isUseless ? doesOf(entry, fault) : 'wait';
  if (isUseless && isForPerson(does)) {
    const says = (names: Names) => ({ what: `${head(names)} has stopped at ${present}`, ...problem(names) });
    // The plugged stick does not help.
    return { does: isOfStick && does === 'plug-in' ? 'plug-in-other' : does, code: fault.code, says };
  }
  const says = (names: Names) => ({
    what: `${head(names)}: ${present}`,
    progress: progressText(progress),
    ...problem(names),
  });
  // The next try may succeed, so the person must not pull the stick out.
  const lacking = isLacking(entry) ? 'bundle/absent' : undefined;
  const code = fault?.code === 'engine/stalled' ? undefined : (fault?.code ?? lacking);
  return { does: 'wait', code, says, stick: isOnPeersOnly === true ? undefined : 'stays' };
}

/**
 * Whether only a person helps: the other images are present, or fail in the same way. A registry
 * may still get missing blobs.
 */
function isInVain({ absentImages, onlineImages }: BundleAssessment, fault: Reason, { memory }: Snapshot): boolean {
  if (onlineImages.length > 0) return false;
  const failed = new Set(
    memory.failures.flatMap(({ task, reason }) =>
      task.kind === 'pull' && isForPerson(doesAbout(reason.code)) ? [task.reference] : [],
    ),
  );
  return isForPerson(doesFor(fault)) && absentImages.every(({ reference }) => failed.has(reference));
}

/** A registry may have blobs that no medium has. */
function isLacking({ badBlobs, onlineImages }: BundleAssessment): boolean {
  return badBlobs.length > 0 && onlineImages.length === 0;
}

/** Names blobs that are known to be missing before the rest is loaded. */
function lackOf(entry: BundleAssessment, { medium }: Names): Pick<LineWords, 'notes'> {
  const [first] = entry.badBlobs;
  if (first === undefined || !isLacking(entry)) return {};
  return {
    notes: [
      first.why === 'absent'
        ? `Not all of it is on ${medium(first.medium)}: plug in the stick that carries the rest, now or later`
        : `A file on ${medium(first.medium)} is damaged: plug in another copy of it, now or later`,
    ],
  };
}

/** The text of an adapter follows the meaning of its code. */
function problemOf(fault: Reason, names: Names): Pick<LineWords, 'notes' | 'details'> {
  const { what, atNode } = reasonWords(fault, names);
  return atNode === undefined
    ? { notes: [`Problem: ${what}`] }
    : { notes: [`Problem: ${atNode}`], details: [capital(what)] };
}

/**
 * Returns the last known medium of a preload that waits for it. Undefined when it does not wait.
 */
function removalOf(
  entry: BundleAssessment,
  snapshot: Snapshot,
  { waitingTransfers }: Progress,
): { readonly last: LastCarrier | undefined } | undefined {
  const { observed, memory, assessment } = snapshot;
  const { bundleId } = entry.bundle;
  const isAlone = isWithoutMedium(entry, observed);
  // A running pull that would not be started now has lost the stick with its layers. Another
  // plugged stick with the bundle lacks them.
  const cut = memory.running.some((task) => task.bundleId === bundleId && isCut(task, assessment));
  const isWaiting = waitingTransfers > 0 && (goneMedia(entry, observed).length > 0 || cut);
  if (!isWaiting && !isAlone) return undefined;
  const last = memory.lastCarriers.get(bundleId);
  if (isAlone && mediumReadAgain(last, observed.media) !== undefined) return undefined;
  // The last medium of the bundle may still be plugged in.
  return { last: isAlone ? last : undefined };
}

/** No plugged medium gives any of its blobs. */
function isWithoutMedium(entry: BundleAssessment, observed: Observed): boolean {
  const media = sourceMedia(entry);
  const areGone = goneMedia(entry, observed).length === media.length;
  return areGone && (media.length > 0 || entry.pullableImages.length === 0);
}

function goneMedia(entry: BundleAssessment, { media }: Observed): readonly string[] {
  const isPlugged = (label: string) => media.some((medium) => medium.label === label && isReadable(medium));
  return sourceMedia(entry).filter((label) => !isPlugged(label));
}

function sourceMedia({ media, blobMedia }: BundleAssessment): readonly string[] {
  return [...media, ...blobMedia];
}

function isReadable({ state }: Medium): boolean {
  return state.kind !== 'unmounted' && state.kind !== 'failed';
}
