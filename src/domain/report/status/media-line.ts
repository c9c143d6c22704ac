import { defined } from '../../../platform/defined.ts';
import { onceFor } from '../../../platform/once-for.ts';
import { formatBytes, formatBytesOf, formatCount, formatDuration } from '../../../platform/sizes.ts';
import type { Rejection } from '../../adoption/unknown-bundles.ts';
import type { Assessment, NoticeAssessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import type { FoundBundle, MediumId } from '../../model/medium.ts';
import type { Memory } from '../../state/memory.ts';
import type { Observed } from '../../state/state.ts';
import { reportedHold } from '../hold-text.ts';
import type { Line } from '../line.ts';
import { isOtherNode, type Names, titleAmong } from '../names.ts';
import { placeText } from '../reasons/image-reasons.ts';
import { doesFor, reasonLine, reasonWords } from '../reasons/reason-text.ts';
import { noticeEffect, noticeTitle } from '../texts/short-texts.ts';
import {
  bundleTrouble,
  foremost,
  isDecided,
  isPassedOver,
  needsOtherMedium,
  otherMediumWords,
  readyLine,
  urgentAmong,
  withoutOutdated,
} from './bundle-lines.ts';

/** Describes the medium that was plugged in last and has something to report. */
export function mediaLine(observed: Observed, assessment: Assessment): Line | undefined {
  for (const { mediumId, label, isDropFolder, peer, state } of [...observed.media].reverse()) {
    if (!isDropFolder && peer === undefined && (state.kind === 'attached' || state.kind === 'mounted'))
      return { does: 'wait', says: (names) => ({ what: `Reading ${names.medium(label)}` }), stick: 'stays' };
    if (peer?.isReady === false && state.kind === 'mounted') {
      const place = placeText(peer.queue);
      const says = (names: Names) => ({ what: `Waiting for ${names.name(label)} to show its bundles: ${place}` });
      return { does: 'wait', code: 'media/peer-waited-for', says };
    }
    const carried = withoutOutdated(assessment.bundles.filter((entry) => isCarriedBy(entry, observed, mediumId)));
    const spoken = foremost(carried, assessment.bundles) ?? carried.at(-1);
    const awaiting = assessment.awaiting.findLast((entry) => entry.mediumId === mediumId);
    const refused = assessment.rejections.filter((rejection) => rejection.mediumId === mediumId);
    // Past bundles say nothing about the other ones on the stick.
    const isHistory = carried.every((entry) => entry.phase === 'retired' || isDecided(entry));
    const isPast = isHistory && (awaiting !== undefined || refused.length > 0);
    if (spoken !== undefined && !isPast) {
      const trouble = bundleTrouble(carried, assessment);
      // Other nodes may need another release on the stick.
      const { neededBy, partition } = carried.findLast((entry) => entry.neededBy ?? entry.partition) ?? {};
      const entry = { ...spoken, ...defined({ neededBy, partition }) };
      const line = freedLine(trouble ?? readyLine(entry, assessment.bundles), assessment);
      return withOthers(line, observed, assessment, mediumId);
    }
    if (awaiting !== undefined) return { ...reasonLine(awaiting.reason), stick: 'stays' };
    if (refused.length > 0 && !isOtherNode({ label, peer })) {
      const line = rejectionLine(refused);
      return isDropFolder || line.does !== 'decided' ? line : freedLine({ ...line, stick: 'free' }, assessment);
    }
    const notice = assessment.notices.findLast((entry) => isCarriedBy(entry, observed, mediumId));
    if (notice !== undefined) return noticeLine(notice, label);
  }
  return undefined;
}

function noticeLine({ bundle, withdrawn, taken }: NoticeAssessment, label: string): Line {
  if (withdrawn !== undefined) return reasonLine(withdrawn);
  const says = (names: Names) => ({
    what: `${names.name(noticeTitle(bundle.payload))} on ${names.medium(label)}: ${noticeEffect(taken)}`,
  });
  return { does: 'done', says, stick: 'free' };
}

function isCarriedBy({ bundle }: Pick<BundleAssessment, 'bundle'>, { media }: Observed, mediumId: MediumId): boolean {
  const state = media.find((medium) => medium.mediumId === mediumId)?.state;
  if (state?.kind !== 'read') return false;
  return idsIn(state.bundles).has(bundle.bundleId);
}

const idsIn = onceFor(
  (found: readonly FoundBundle[]) =>
    new Set(found.flatMap((one) => (one.kind === 'verified' ? [one.bundle.bundleId] : []))),
);

/** @param rejections at least one */
function rejectionLine(rejections: readonly Rejection[]): Line {
  const rejection = rejections.at(-1);
  if (rejection === undefined) throw new RangeError('no rejection');
  const { reason, name = 'bundle', label } = rejection;
  const more =
    rejections.length > 1
      ? [
          `${formatCount(rejections.length - 1, 'other bundle')} on it ${rejections.length === 2 ? 'was' : 'were'} rejected too`,
        ]
      : [];
  const says = (names: Names) => {
    const words = reasonWords(reason, names);
    const head = `Rejected ${names.name(name)} on ${names.medium(label)}: `;
    const atNode = `${head}${words.atNode ?? words.what}`;
    const also = [...(words.also ?? []), "See 'stickpin list' and 'journalctl -u stickpin -x'"];
    return { ...words, what: `${head}${words.what}`, atNode, notes: more, also };
  };
  return { does: doesFor(reason), code: reason.code, says };
}

/** The stick of a decided bundle may be removed if no stick's bundle waits for a person. */
function freedLine(line: Line, { awaiting, rejections }: Assessment): Line {
  const isAlone = awaiting.length === 0 && rejections.every(({ reason }) => doesFor(reason) === 'decided');
  return line.does === 'decided' && !isAlone ? { ...line, stick: undefined } : line;
}

/** Adds briefly the facts that the line about one medium would hide. */
function withOthers(line: Line, { media }: Observed, { bundles, rejections }: Assessment, spoken: MediumId): Line {
  const othersIn = (names: Names) => {
    const sticks = media.filter((medium) => !isOtherNode(medium));
    const others = sticks.flatMap(({ mediumId, label, state }) => {
      if (state.kind === 'failed') return [unreadableNote(names.medium(label))];
      const count = rejections.filter((rejection) => rejection.mediumId === mediumId).length;
      if (count === 0) return [];
      const what = formatCount(count, mediumId === spoken ? 'other bundle' : 'bundle');
      return [`${what} on ${names.medium(label)} ${count === 1 ? 'was' : 'were'} rejected`];
    });
    const urgent = urgentAmong(bundles).filter((entry) => reportedHold(entry)?.releasedBy === 'person');
    const troubled = bundles.filter(
      (entry) =>
        entry.media.length === 0 &&
        !isPassedOver(entry, bundles) &&
        !isDecided(entry) &&
        (entry.reason !== undefined || urgent.includes(entry)),
    );
    const first = troubled.find((entry) => !needsOtherMedium(entry)) ?? troubled[0];
    if (first === undefined) return others;
    const title = titleAmong(first.bundle, bundles, names);
    const { what, next, run } = otherMediumWords(first, title) ?? {
      what: `${title} needs attention`,
      run: "See 'stickpin list'",
    };
    return [...others, what, ...[next, run].flatMap((text) => text ?? [])];
  };
  const says = (names: Names) => {
    const words = line.says(names);
    return { ...words, also: [...(words.also ?? []), ...othersIn(names)] };
  };
  return { ...line, says };
}

export function unreadableNote(name: string): string {
  return `${name} cannot be read`;
}

/** @returns undefined while no layer is copied */
export function copyLine({ copyingBytes }: Memory, { bundles }: Assessment): Line | undefined {
  if (copyingBytes === undefined) return undefined;
  const carried = bundles.filter(({ blobMedia }) => blobMedia.length > 0);
  const entry =
    carried.findLast(({ hold }) => hold === 'media') ??
    carried.findLast(({ absentArtifacts }) => absentArtifacts.length > 0) ??
    carried.at(-1);
  const kind = entry?.absentArtifacts.length ? 'artifacts' : 'layers';
  const says = (names: Names) => {
    const what = entry === undefined ? kind : `${kind} of ${names.title(entry.bundle.payload)}`;
    const from = entry?.blobMedia.length ? ` from ${names.media(entry.blobMedia, '', ' and ')}` : '';
    return { what: `Copying ${what}${from} to this node`, progress: `${formatBytes(copyingBytes)} left` };
  };
  return { does: 'wait', says, stick: entry?.isOnPeersOnly === true ? undefined : 'stays' };
}

/** Counts bytes of compressed blobs. */
interface TransferProgress {
  readonly doneBytes: number;
  readonly totalBytes: number;
  /** Smoothed. Undefined until there is enough data. */
  readonly bytesPerSecond?: number | undefined;
  /** All requested blobs were transferred, and the runtime unpacks them. Default false. */
  readonly isUnpacking?: boolean;
}

export interface Progress extends TransferProgress {
  /** These transfers have waited for their medium for some seconds. */
  readonly waitingTransfers: number;
  /** The transfers have waited so long that there is a fault. Default false. */
  readonly isStalled?: boolean;
  /** Images that were pulled since the images of the runtime were last read. Default none. */
  readonly landedImages?: readonly string[];
}

/** A longer remaining time only means that the transfer hardly moves. */
const MAX_LEFT_MS = 24 * 60 * 60 * 1000;

/** Returns `5.1 of 16.0 GiB, 84 MiB/s, about 2 min 10 s left`, or that the runtime is unpacking. */
export function progressText({ doneBytes, totalBytes, bytesPerSecond, isUnpacking = false }: TransferProgress): string {
  const bytes = formatBytesOf(doneBytes, totalBytes);
  if (isUnpacking) return `${bytes}, the runtime is unpacking`;
  const leftBytes = totalBytes - doneBytes;
  if (leftBytes <= 0 || bytesPerSecond === undefined) return bytes;
  const leftMs = (leftBytes / bytesPerSecond) * 1000;
  const remaining = leftMs > MAX_LEFT_MS ? '' : `, about ${formatDuration(Math.max(1_000, leftMs))} left`;
  return `${bytes}, ${formatBytes(bytesPerSecond)}/s${remaining}`;
}
