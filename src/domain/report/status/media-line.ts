import { clip, oneLine, sentence } from '../../../platform/plain-text.ts';
import type { Rejection } from '../../adoption/unknown-bundles.ts';
import type { Assessment, NoticeAssessment } from '../../assess/assess.ts';
import type { BundleAssessment } from '../../assess/assess-bundle.ts';
import type { MediumId } from '../../model/medium.ts';
import type { Observed } from '../../state/state.ts';
import { waitingToLookText } from '../reasons/media-text.ts';
import { reasonText } from '../reasons/reason-text.ts';
import { noticeEffect, noticeTitle } from '../texts/bundle-text.ts';
import { bundleTrouble, isSteppedBack, readyLine, steppedBackNote, withoutOutdated } from './bundle-lines.ts';
import { heldLine, MAX_HELD_LENGTH } from './held-line.ts';
import { titleAmong } from './namesake.ts';

/** Longest reason in a line that goes on after it. */
const MAX_REASON_LENGTH = 330;

/** Longest line to which something is added, unless it is about a held activation. */
const NOTED_LENGTH = 300;

/** About the medium that was plugged in last and has something to tell. */
export function mediaLine(observed: Observed, assessment: Assessment): string | undefined {
  for (const { mediumId, label, isDropFolder, peer, state } of [...observed.media].reverse()) {
    if (!isDropFolder && peer === undefined && (state.kind === 'attached' || state.kind === 'mounted'))
      return `Looking at ${label}.`;
    if (peer?.isReady === false && state.kind === 'mounted') return waitingToLookText(label, peer);
    const carried = withoutOutdated(assessment.bundles.filter((entry) => isCarriedBy(entry, observed, mediumId)));
    const newest = carried.at(-1);
    if (newest !== undefined) {
      const trouble = bundleTrouble(carried, assessment);
      const isHeld = trouble === undefined && heldLine(newest, assessment.bundles) !== undefined;
      const maxLength = isHeld ? MAX_HELD_LENGTH : NOTED_LENGTH;
      const line = trouble ?? readyLine(newest, assessment.bundles);
      return withNotes({ line, maxLength }, observed, assessment, mediumId);
    }
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

/** Adds in few words what the line about one medium would hide, as far as there is room. */
function withNotes(
  { line, maxLength }: { readonly line: string; readonly maxLength: number },
  { media }: Observed,
  { bundles, rejections }: Assessment,
  spoken: MediumId,
): string {
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
    return longer.length <= maxLength ? longer : told;
  }, line);
}
