import { formatBytes, formatBytesOf, formatDuration } from '../platform/sizes.ts';
import type { Assessment, BundleAssessment } from './assess.ts';
import { bundleName, bundleTitle } from './bundle.ts';
import type { Observed } from './state.ts';

/** How a preload goes, in bytes of compressed blobs. */
export interface Progress {
  readonly doneBytes: number;
  readonly totalBytes: number;
  /** Smoothed; undefined until it is known. */
  readonly bytesPerSecond: number | undefined;
  /** Transfers that wait for their medium to come back. */
  readonly waitingTransfers: number;
}

/** The one line that tells a technician what goes on, how far it is and what comes next: `STATUS=` of sd_notify(3). */
export function statusLine(observed: Observed, assessment: Assessment, progress: Progress): string {
  const isStuck = observed.obstacle !== undefined && observed.running.length === 0;
  return (
    (isStuck ? undefined : workLine(observed, assessment, progress)) ??
    rejectionLine(assessment) ??
    troubleLine(observed, assessment) ??
    mediumLine(observed) ??
    restLine(observed, assessment)
  );
}

function workLine(observed: Observed, assessment: Assessment, progress: Progress): string | undefined {
  const activating = observed.running.find((task) => task.kind === 'activate');
  const target = assessment.bundles.find((entry) => entry.bundle.bundleId === activating?.bundleId);
  if (target !== undefined) return `Activating ${bundleTitle(target.bundle.payload)}: giving its tags to its images.`;
  const entry = assessment.bundles.find(
    (candidate) =>
      observed.running.some((task) => task.bundleId === candidate.bundle.bundleId) ||
      (candidate.phase === 'preloading' && candidate.absentImages.length > 0),
  );
  return entry === undefined ? adoptionLine(assessment) : preloadLine(entry, progress);
}

function adoptionLine({ adoptions }: Assessment): string | undefined {
  const adoption = adoptions[0];
  if (adoption === undefined) return undefined;
  const { payload, signedBy } = adoption.found.bundle;
  return `${bundleTitle(payload)} on ${adoption.label}: signature by ${signedBy.join(', ')} ok, ${payload.totals.blobs - adoption.found.missing.length} blobs found. Preloading next.`;
}

function preloadLine(entry: BundleAssessment, progress: Progress): string {
  const { bundle, media, degraded } = entry;
  const title = bundleTitle(bundle.payload);
  const total = bundle.contents.images.length;
  const present = total - entry.absentImages.length;
  if (media.length === 0 || progress.waitingTransfers > 0) {
    return `Stick removed while preloading ${title} (${present}/${total} images). Plug it in again to continue.`;
  }
  const from = `Preloading ${title} from ${media.join(', ')}: ${present}/${total} images`;
  const bytes = formatBytesOf(progress.doneBytes, progress.totalBytes);
  const rate = progress.bytesPerSecond === undefined ? '' : `, ${formatBytes(progress.bytesPerSecond)}/s`;
  const left = timeLeft(progress);
  const trouble = degraded === undefined ? '' : `. Trying again: ${degraded.message}`;
  return `${from}, ${bytes}${rate}${left}${trouble}`;
}

function timeLeft({ doneBytes, totalBytes, bytesPerSecond }: Progress): string {
  if (bytesPerSecond === undefined || bytesPerSecond < 1) return '';
  return `, about ${formatDuration(((totalBytes - doneBytes) / bytesPerSecond) * 1000)} left`;
}

function rejectionLine({ rejections, bundles }: Assessment): string | undefined {
  const rejection = rejections.at(-1);
  if (rejection === undefined) return undefined;
  const more = rejections.length > 1 ? ` (and ${rejections.length - 1} more)` : '';
  const name = rejection.name === undefined ? 'bundle' : rejection.name;
  const running = bundles.some((entry) => entry.phase === 'held') ? ' Another bundle is held.' : '';
  return `Rejected ${name} on ${rejection.label}: ${rejection.reason.message}${more}; see 'stickpin list' and journalctl -u stickpin -x.${running}`;
}

function troubleLine(observed: Observed, { bundles }: Assessment): string | undefined {
  if (observed.runtime.kind === 'unreachable') {
    const waiting = bundles.find((entry) => entry.phase === 'held');
    const what = waiting === undefined ? '' : ` ${bundleTitle(waiting.bundle.payload)} waits for it.`;
    return `The container runtime does not answer: ${observed.runtime.reason}.${what} Start it; stickpin goes on by itself.`;
  }
  if (observed.obstacle !== undefined) return `${observed.obstacle.message}. It is tried again by itself.`;
  const held = bundles.filter((entry) => entry.reason !== undefined).at(-1);
  if (held?.reason !== undefined) return held.reason.message;
  const failing = bundles.filter((entry) => entry.degraded !== undefined).at(-1);
  return failing?.degraded === undefined
    ? undefined
    : `${bundleTitle(failing.bundle.payload)}: ${failing.degraded.message}`;
}

/** About a plugged medium that could not be read or carries nothing; told only while there is no better news. */
function mediumLine({ media }: Observed): string | undefined {
  for (const { label, state } of media) {
    if (state.kind === 'failed') return `Cannot read ${label}: ${state.reason.message}`;
    if (state.kind !== 'read') return `Looking at ${label}.`;
  }
  return undefined;
}

function restLine(observed: Observed, { bundles }: Assessment): string {
  const onMedium = bundles.filter((entry) => entry.media.length > 0).at(-1);
  if (onMedium !== undefined) return readyLine(onMedium);
  const waiting = bundles.filter((entry) => entry.phase === 'ready').at(-1);
  if (waiting !== undefined) return readyLine(waiting);
  const empty = observed.media.find((medium) => medium.state.kind === 'read' && medium.state.bundles.length === 0);
  const foreign =
    empty === undefined ? '' : ` ${empty.label} carries no bundle (no folder stickpin/NAME with a bundle.dsse.json).`;
  const activated = [...bundles].sort((a, b) => (b.bundle.activatedAt ?? 0) - (a.bundle.activatedAt ?? 0))[0];
  if (activated === undefined) return `Idle. No bundle yet.${foreign} Waiting for media.`;
  const images = activated.bundle.contents.images.length;
  return `Idle. ${bundleTitle(activated.bundle.payload)} activated (${images} images present and pinned).${foreign} Waiting for media.`;
}

function readyLine({ bundle, media, activationDue }: BundleAssessment): string {
  const images = bundle.contents.images.length;
  const isAwaited = bundle.activatedAt === undefined;
  if (activationDue)
    return `${bundleTitle(bundle.payload)} is ready: ${images} images present and pinned. Activating next.`;
  const next = isAwaited
    ? `'stickpin activate ${bundleName(bundle.payload)}' when you like.`
    : `It is activated${media.length > 0 ? '; you may remove the stick.' : '.'}`;
  return `${bundleTitle(bundle.payload)} is ready: ${images} images present and pinned. ${next}`;
}
