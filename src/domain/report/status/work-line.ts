import { sentence } from '../../../platform/plain-text.ts';
import { formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { Assessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { bundleInWork } from '../../decide/release-effects.ts';
import type { VerifiedBundle } from '../../model/bundle.ts';
import type { Medium } from '../../model/medium.ts';
import type { Reason } from '../../model/reason.ts';
import { interruptionOf, type LastCarrier, type Memory, mediumReadAgain } from '../../state/memory.ts';
import { isRelease } from '../../trust/trust-in-force.ts';
import { doesAbout } from '../codes.ts';
import { type Names, titleAmong, withShortDigests } from '../fitted.ts';
import { reasonLine, wrongWithin } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import { noticeTitle, sourcesOf, trustedBy } from '../texts/short-texts.ts';
import type { Line, Width } from './line.ts';
import { type Progress, progressText } from './media-line.ts';
import { isStick } from './stick-use.ts';

/** What the daemon does now. */
export function workLine(snapshot: Snapshot, progress: Progress): Line | undefined {
  const { memory, assessment } = snapshot;
  const { bundles } = assessment;
  for (const { kind, bundleId } of memory.running) {
    const entry = kind === 'pull' ? undefined : bundles.find(({ bundle }) => bundle.bundleId === bundleId);
    if (entry === undefined) continue;
    const title = ({ names }: Width) => titleAmong(entry.bundle, bundles, names);
    const text = (width: Width) =>
      kind === 'activate'
        ? `Activating ${title(width)}.`
        : `Repairing ${title(width)}: names of its images are set again.`;
    return { does: 'wait', text, stick: 'stays' };
  }
  const entry = bundleInWork(memory, assessment);
  if (entry !== undefined) return preloadLine(entry, snapshot, progress);
  return adoptionLine(memory, assessment) ?? syncLine(memory, assessment);
}

/** Nothing is promised before a sync has ended. */
function syncLine({ storage }: Memory, { bundles }: Assessment): Line | undefined {
  const entry = bundles.find(({ unsyncedImages }) => unsyncedImages.length > 0);
  if (storage?.runningMs === undefined || storage.failure !== undefined || entry === undefined) return undefined;
  const images = formatCount(entry.unsyncedImages.length, 'image');
  const since = storage.runningMs < SYNC_SHOWN_MS ? '' : ` for ${formatDuration(storage.runningMs)} so far`;
  const text = ({ names }: Width) =>
    `Writing ${images} of ${titleAmong(entry.bundle, bundles, names)} to the disk${since}.`;
  return { does: 'wait', code: 'runtime/sync-pending', text, stick: 'stays' };
}

/** Most syncs take no time that a person sees. */
const SYNC_SHOWN_MS = 1_000;

function adoptionLine({ keeping }: Memory, { adoptions }: Assessment): Line | undefined {
  const adoption = adoptions[0];
  if (adoption === undefined) return undefined;
  const { bundle, missing } = adoption.found;
  const { payload, bundleId } = bundle;
  const kept = keeping.get(bundleId);
  const next = kept === undefined ? 'Preloading next.' : `Preparing to load it: ${kept.done} of ${kept.total}.`;
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
  const isOfStick = snapshot.observed.media.some((one) => isStick(one) && entry.media.includes(one.label));
  if (progress.isStalled === true) {
    const retry = isOfStick ? '; if it stalls again, try another port' : '';
    const text = ({ room, names }: Width) => {
      const head = `Preloading ${title(names)} has stalled at ${present}`;
      const line = `${head}: ${names.list(entry.media, 'the medium')} does not deliver.`;
      return fault === undefined ? `${line} It is retried${retry}.` : withProblem(line, head, fault, room);
    };
    const code = 'engine/stalled';
    return { does: isOfStick ? doesAbout(code) : 'wait', code, text };
  }
  const sources = sourcesOf(entry);
  const text = ({ room, names }: Width) => {
    const from = sources.length === 0 ? '' : ` from ${names.list(sources, '', ' and ')}`;
    const line = `Preloading ${title(names)}${from}: ${present}, ${progressText(progress)}`;
    return fault === undefined ? line : withProblem(line, `Preloading ${title(names)}: ${present}`, fault, room);
  };
  // The next try may deliver: the person is to pull nothing.
  const code = fault?.code === 'engine/stalled' ? undefined : fault?.code;
  // Only another bundle helps: the other images are there, or fail in the same way.
  const isInVain = fault?.code === 'runtime/unfit-image' && snapshot.memory.running.length === 0;
  if (isInVain) return { does: doesAbout(fault.code), code, text };
  return { does: 'wait', code, text, stick: isOnPeersOnly === true ? undefined : 'stays' };
}

/** `brief`: where the line and its problem together are too long. */
function withProblem(line: string, brief: string, fault: Reason, room: number): string {
  const heads = [line, brief].map((text) => `${sentence(text)} Problem: `);
  const whole = withShortDigests(`${heads[0]}${wrongWithin(fault, Number.POSITIVE_INFINITY).replace(/\.$/, '')}`);
  return whole.length <= room ? whole : `${heads[1]}${wrongWithin(fault, room - (heads[1]?.length ?? 0))}`;
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
