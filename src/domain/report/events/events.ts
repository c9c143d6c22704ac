import { defined } from '../../../platform/defined.ts';
import { formatBytes, formatCount } from '../../../platform/sizes.ts';
import type { Rejection } from '../../adoption/unknown-bundles.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import { isComplete } from '../../assess/assess-order.ts';
import { unsupportedReason } from '../../assess/derive-phase.ts';
import { isPreloadOf } from '../../decide/release-effects.ts';
import { bundleTitle } from '../../model/bundle.ts';
import type { Event } from '../../model/condition.ts';
import type { Medium, MediumId } from '../../model/medium.ts';
import { isFolder, type Memory } from '../../state/memory.ts';
import type { Observed } from '../../state/state.ts';
import { eventOf } from '../codes.ts';
import { ruleReason } from '../hold-text.ts';
import { runtimeAway } from '../reasons/node-lines.ts';
import { reasonText, shownReason } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import { sourcesOf, trustedBy, unmountedText } from '../texts/short-texts.ts';
import { damageEvents, degradedEvents, nodePullEvents, unclaimedEvents } from './release-events.ts';

/** Before the first round nothing is known. It reports media and faults, but no bundles again. */
export function eventsBetween(before: Snapshot | undefined, after: Snapshot): Event[] {
  return [
    ...runtimeEvents(before, after),
    ...pinEvents(before, after),
    ...unclaimedEvents(before?.assessment, after.assessment),
    ...nodePullEvents(before, after),
    ...mediaEvents(before, after),
    ...rejectionEvents(before, after),
    ...approvalEvents(before, after),
    ...missingEvents(before, after),
    ...damageEvents(before?.assessment, after.assessment),
    ...(before === undefined ? [] : [...bundleEvents(before, after), ...holdEvents(before, after)]),
    ...(before === undefined ? [] : noticeEvents(before, after)),
  ];
}

function runtimeEvents(before: Snapshot | undefined, { observed }: Snapshot): Event[] {
  const was = before?.observed.runtime;
  const is = observed.runtime;
  if (is.kind !== 'reachable') {
    if (was?.kind === is.kind) return [];
    const { what, next } = runtimeAway(is);
    if (is.kind === 'unreachable' && is.stoppingUnit !== undefined)
      return [{ kind: 'runtimeStopping', level: 'info', message: `${what} ${next}` }];
    const kind = is.kind === 'unlisted' ? 'imagesUnlisted' : 'runtimeUnreachable';
    const detail = is.kind === 'unlisted' && is.isStorageDamaged === true ? ` It said: ${is.reason}` : '';
    return [{ kind, level: 'warn', message: `${what} Preloads wait for it. ${next}${detail}` }];
  }
  const message = `The container runtime answers: ${is.name}`;
  const back: Event[] = was?.kind === 'reachable' ? [] : [{ kind: 'runtimeBack', level: 'info', message }];
  const tooOld = unsupportedReason(is);
  const isReported =
    tooOld === undefined || (was !== undefined && unsupportedReason(was)?.data.runtime === tooOld.data.runtime);
  return isReported ? back : [...back, { kind: 'runtimeTooOld', level: 'warn', message: reasonText(tooOld) }];
}

/**
 * A file that removes pins is reported when it appears: the runtime may not have read it yet, so
 * the pins still hold.
 */
function pinEvents(before: Snapshot | undefined, { observed }: Snapshot): Event[] {
  const faultOf = (seen: Observed | undefined) =>
    seen?.runtime.kind === 'reachable' ? seen.runtime.pinFault?.message : undefined;
  const [was, is] = [faultOf(before?.observed), faultOf(observed)];
  if (was === is || observed.runtime.kind !== 'reachable') return [];
  if (is !== undefined) return [{ kind: 'pinsNotTaken', level: 'warn', message: is }];
  return [{ kind: 'pinsHold', level: 'info', message: 'Nothing takes the pins of bundles away any more' }];
}

function mediaEvents(before: Snapshot | undefined, { observed, memory }: Snapshot): Event[] {
  const media = before?.observed.media ?? [];
  const known = new Map(media.map((medium) => [medium.mediumId, medium.state]));
  const gone = media
    .filter((medium) => observed.media.every((other) => other.mediumId !== medium.mediumId))
    .flatMap((medium) => removalEvents(medium, before?.assessment.bundles ?? [], memory));
  return [
    ...gone,
    ...observed.media
      .filter((medium) => known.get(medium.mediumId) !== medium.state)
      .flatMap((medium) => stateEvents(medium, memory)),
  ];
}

/** Warns while transfers wait for the medium. A hold that follows is reported as such. */
function removalEvents(medium: Medium, bundles: readonly BundleAssessment[], { running }: Memory): Event[] {
  const { label } = medium;
  const about = { kind: 'mediumGone', medium: label } as const;
  const cut = bundles.find(
    ({ bundle, media, blobMedia }) =>
      [...media, ...blobMedia].includes(label) && running.some((task) => isPreloadOf(task, bundle)),
  );
  if (cut === undefined) {
    // Another node is a medium only while it has needed blobs.
    return medium.peer === undefined ? [{ ...about, level: 'info', message: `${label} was removed` }] : [];
  }
  const { bundle, absentImages } = cut;
  const total = bundle.contents.images.length;
  const present = total - absentImages.length;
  const data = { bundle: bundle.payload, images: { present, total }, how: { kind: 'peer-away', peer: label } } as const;
  const message =
    medium.peer === undefined
      ? `${label} was removed while preloading ${bundleTitle(bundle.payload)} (${present}/${total} images). ${isFolder(medium) ? 'Put it back' : 'Plug it in again'} to continue`
      : reasonText({ code: 'engine/no-source', data });
  return [{ ...about, level: medium.peer === undefined ? 'warn' : 'info', message, bundleId: bundle.bundleId }];
}

function stateEvents(medium: Medium, { mediaFaults }: Memory): Event[] {
  const { mediumId, label, isDropFolder, state } = medium;
  if (state.kind === 'unmounted') {
    return [{ kind: 'mediumUnmounted', level: 'warn', medium: label, message: unmountedText(label) }];
  }
  if (state.kind === 'failed') {
    // Another try failed for the same reason.
    if (mediaFaults?.get(mediumId) === state.reason.message) return [];
    const message = `${label} can't be read: ${state.reason.message}`;
    return [{ kind: 'mediumFailed', level: 'warn', medium: label, message, code: state.reason.code }];
  }
  // Another node is read again whenever it has more. Adoptions from it are reported.
  if (state.kind !== 'read' || medium.peer !== undefined) return [];
  const count = state.bundles.length;
  if (isDropFolder && count === 0) return [];
  const found =
    count === 0 ? 'no bundle (no folder stickpin/NAME with a bundle.dsse.json)' : formatCount(count, 'bundle');
  const message = `${label} found, with ${found} on it`;
  return [{ kind: count === 0 ? 'mediumEmpty' : 'mediumFound', level: 'info', medium: label, message }];
}

function rejectionEvents(before: Snapshot | undefined, { assessment }: Snapshot): Event[] {
  const key = ({ mediumId, path, reason }: Rejection) => `${mediumId}\n${path}\n${reasonText(reason)}`;
  const known = new Set((before?.assessment.rejections ?? []).map(key));
  return assessment.rejections
    .filter((rejection) => !known.has(key(rejection)))
    .map(({ mediumId, label, path, reason, bundleId }) => {
      const message = `Rejected ${path} on ${label}: ${reasonText(reason)}`;
      const about = { medium: label, code: reason.code, bundleId, isLogOnly: isOfPeer(mediumId) };
      return defined({ kind: 'bundleRejected', level: 'warn', message, ...about });
    });
}

function isOfPeer(mediumId: MediumId): true | undefined {
  return mediumId.startsWith('peer:') ? true : undefined;
}

/**
 * A bundle that waits for approval is reported once while it is plugged in, on any number of media.
 */
function approvalEvents(before: Snapshot | undefined, { assessment }: Snapshot): Event[] {
  const reported = new Set((before?.assessment.awaiting ?? []).map(({ bundleId }) => bundleId));
  return assessment.awaiting.flatMap(({ mediumId, bundleId, label, reason }): Event[] => {
    if (reported.has(bundleId)) return [];
    reported.add(bundleId);
    const about = { medium: label, bundleId, isLogOnly: isOfPeer(mediumId) };
    return [defined({ kind: 'approvalAwaited', level: 'warn', ...about, ...shownReason(reason) })];
  });
}

/** A failure that now holds its bundle was reported when it happened. */
function bundleEvents(before: Snapshot, { memory, assessment }: Snapshot): Event[] {
  const was = new Map(before.assessment.bundles.map((entry) => [entry.bundle.bundleId, entry]));
  return assessment.bundles.flatMap((entry) => {
    const old = was.get(entry.bundle.bundleId);
    const isSame = old?.phase === entry.phase && old.hold === entry.hold && newsOf(old) === newsOf(entry);
    const isKnown = old !== undefined && before.observed.runtime.kind === 'reachable';
    if (old?.withdrawn !== undefined && entry.withdrawn === undefined) return restoredEvents(entry);
    if (isKnown && !isComplete(old) && isComplete(entry)) return completionEvents(entry);
    const degraded = degradedEvents(old, entry);
    // The hold was known before the daemon started and is not reported again.
    if (old?.reason?.code === 'media/looking' && entry.hold === 'media') return degraded;
    const text = entry.reason && reasonText(entry.reason);
    const isReported = memory.failures.some(({ reason }) => reason.message === text);
    return isSame || isReported ? degraded : [...degraded, ...phaseEvents(entry)];
  });
}

/** Returns the code to report. A medium that was removed during its read was reported then. */
function newsOf({ phase, reason }: BundleAssessment): string | undefined {
  return phase === 'preloading' && reason?.code === 'engine/no-source' ? undefined : reason?.code;
}

function holdEvents(before: Snapshot, { assessment }: Snapshot): Event[] {
  const heldBy = ({ bundle, phase, holds }: BundleAssessment) =>
    phase === 'ready' ? ruleReason(bundle, holds) : undefined;
  const was = new Map(before.assessment.bundles.map((entry) => [entry.bundle.bundleId, heldBy(entry)?.code]));
  return assessment.bundles.flatMap((entry): Event[] => {
    const { bundle } = entry;
    const held = heldBy(entry);
    if (held === undefined || held.code === was.get(bundle.bundleId)) return [];
    const message = `${bundleTitle(bundle.payload)} is ready. ${held.message}`;
    // A closed window follows from the node's settings, so it is no warning.
    const level = held.code === 'window' ? 'info' : 'warn';
    return [{ kind: 'activationHeld', level, bundleId: bundle.bundleId, message }];
  });
}

/**
 * Reports missing images once, also if they disappeared before the daemon started. Until all media
 * were read nobody knows what is missing.
 */
function missingEvents(before: Snapshot | undefined, after: Snapshot): Event[] {
  const reported = before === undefined ? [] : missingIn(before).map(({ bundle }) => bundle.bundleId);
  return missingIn(after).flatMap(({ bundle, degraded }): Event[] =>
    degraded === undefined || reported.includes(bundle.bundleId)
      ? []
      : [{ kind: 'imagesMissing', level: 'warn', bundleId: bundle.bundleId, message: reasonText(degraded) }],
  );
}

function missingIn({
  observed: { media },
  memory: { areMediaUnread },
  assessment,
}: Snapshot): readonly BundleAssessment[] {
  if (areMediaUnread) return [];
  const isRead = media.every(({ state, isBusy }) => (state.kind === 'read' && !isBusy) || state.kind === 'failed');
  return isRead ? assessment.bundles.filter(({ degraded }) => degraded?.code === 'engine/image-missing') : [];
}

function noticeEvents(before: Snapshot, { assessment }: Snapshot): Event[] {
  const was = new Map(before.assessment.notices.map((entry) => [entry.bundle.bundleId, entry.withdrawn]));
  return assessment.notices.flatMap((entry): Event[] => {
    const { bundle, withdrawn } = entry;
    const old = was.get(bundle.bundleId);
    if (old?.code === withdrawn?.code) return [];
    if (withdrawn === undefined) return restoredEvents(entry);
    return [
      {
        kind: eventOf(withdrawn.code) ?? 'trustWithdrawn',
        level: 'warn',
        ...shownReason(withdrawn),
        bundleId: bundle.bundleId,
      },
    ];
  });
}

function restoredEvents({ bundle }: Pick<BundleAssessment, 'bundle'>): Event[] {
  const message = `${bundleTitle(bundle.payload)} is trusted again: ${trustedBy(bundle)}`;
  return [{ kind: 'trustRestored', level: 'info', bundleId: bundle.bundleId, message }];
}

/**
 * Reports a release that was ready, lost images and has them back. The code that records the first
 * time reports that one.
 */
function completionEvents({ bundle }: BundleAssessment): Event[] {
  if (bundle.readyAt === undefined) return [];
  const message = `${bundleTitle(bundle.payload)} is complete again: ${formatCount(bundle.contents.images.length, 'image')} present and pinned`;
  return [{ kind: 'bundleReady', level: 'info', bundleId: bundle.bundleId, message }];
}

function phaseEvents(entry: BundleAssessment): Event[] {
  const { bundle, phase, reason, media, absentImages } = entry;
  const about = defined({ bundleId: bundle.bundleId, medium: media[0] });
  if (phase === 'preloading' && absentImages.length > 0) {
    const { totals } = bundle.payload;
    const sources = sourcesOf(entry);
    const from = sources.length === 0 ? '' : ` from ${sources.join(' and ')}`;
    const message = `Preloading ${bundleTitle(bundle.payload)}${from}: ${absentImages.length} of ${bundle.contents.images.length} images to pull, ${formatBytes(totals.sizeBytes)} in all`;
    return [{ kind: 'preloadStarted', level: 'info', message, ...about }];
  }
  if (reason === undefined) return [];
  const kind = eventOf(reason.code);
  return kind === undefined ? [] : [{ kind, level: 'warn', ...shownReason(reason), ...about }];
}
