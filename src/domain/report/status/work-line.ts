import { oneLine, sentence } from '../../../platform/plain-text.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleInWork } from '../../decide/release-effects.ts';
import type { VerifiedBundle } from '../../model/bundle.ts';
import type { Medium } from '../../model/medium.ts';
import type { Reason } from '../../model/reason.ts';
import { interruptionOf, type LastCarrier, type Memory, mediumReadAgain } from '../../state/memory.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { briefHow } from '../brief/brief-media.ts';
import { briefName, briefNames, briefTitle } from '../brief/brief-name.ts';
import { MAX_LINE_LENGTH } from '../brief/fitted.ts';
import { titleAmong } from '../brief/namesake.ts';
import { reasonWithin } from '../brief/reason-within.ts';
import { interruptionText, waitingForPeerText } from '../reasons/media-text.ts';
import { reasonText } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import { noticeTitle, trustedBy } from '../texts/bundle-text.ts';
import { sourcesOf } from '../texts/sources.ts';
import { type Progress, progressText } from './progress-text.ts';

/** The line about the current activation, preload or adoption. Undefined while there is none. */
export function workLine(snapshot: Snapshot, progress: Progress): string | undefined {
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
  const { bundle, trouble: fault, absentImages } = entry;
  const total = bundle.contents.images.length;
  const landed = new Set(progress.landedImages);
  const absent = absentImages.filter(({ reference }) => !landed.has(reference)).length;
  const present = `${total - absent}/${total} images`;
  if (entry.waitsFor !== undefined && (progress.waitingTransfers > 0 || entry.pullableImages.length === 0))
    return waitingForPeerText(title, present, { ...entry.waitsFor, peer: briefName(entry.waitsFor.peer) });
  const removed = removalOf(entry, snapshot, progress);
  if (removed !== undefined)
    return interruptionText(title, present, briefHow(interruptionOf(removed.last, snapshot.observed.media)));
  if (progress.waitingTransfers > 0) {
    const next =
      fault === undefined
        ? `It is tried again${entry.isOnPeersOnly === true ? '' : '; if that does not help, unplug the stick and plug it in again'}.`
        : undefined;
    const line = `Preloading ${title} has stalled at ${present}: ${briefNames(entry.media, 'the medium')} does not deliver.`;
    return next === undefined
      ? withProblem(line, `Preloading ${title} has stalled at ${present}`, fault)
      : `${line} ${next}`;
  }
  const sources = sourcesOf(entry);
  const from = sources.length === 0 ? '' : ` from ${briefNames(sources, '', ' and ')}`;
  return withProblem(
    `Preloading ${title}${from}: ${present}, ${progressText(progress)}`,
    `Preloading ${title}: ${present}`,
    fault,
  );
}

/**
 * A line about a preload and what went wrong with it; `brief`: where both together are too long.
 */
function withProblem(line: string, brief: string, fault: Reason | undefined): string {
  if (fault === undefined) return line;
  const whole = `${sentence(line)} Problem: ${oneLine(reasonText(fault))}`;
  const head = `${sentence(brief)} Problem: `;
  return whole.length <= MAX_LINE_LENGTH ? whole : `${head}${reasonWithin(fault, MAX_LINE_LENGTH - head.length)}`;
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
  if (isAlone && mediumReadAgain(last, observed.media) !== undefined) return undefined;
  // What carried it last may be the medium that is still plugged in.
  return { last: isAlone ? last : undefined };
}

function isReadable({ state }: Medium): boolean {
  return state.kind !== 'unmounted' && state.kind !== 'failed';
}
