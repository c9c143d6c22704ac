import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { type Assessment, allBundles } from '../../assess/assess.ts';
import { wantedReleases } from '../../fleet/wanted-release.ts';
import type { MediumId } from '../../model/medium.ts';
import type { Observed } from '../../state/state.ts';
import { briefName } from '../brief/brief-name.ts';
import { fitted, MAX_LINE_LENGTH, sentencesOf } from '../brief/fitted.ts';
import { reasonWithin } from '../brief/reason-within.ts';
import { unclaimedNote } from '../events/pin-events.ts';
import { hookNotes } from '../parts/hook-report.ts';
import type { Snapshot } from '../snapshot.ts';
import { streamNotes } from '../stream-report.ts';
import { checkLine } from '../texts/content-text.ts';
import { wantedReleaseText } from '../texts/fleet-text.ts';
import { blockedLine } from './blocked-line.ts';
import { askedLine, bundleTrouble, urgentAmong } from './bundle-lines.ts';
import { copyLine } from './copy-line.ts';
import { mediaLine } from './media-line.ts';
import type { Progress } from './progress-text.ts';
import { isEmptyStick, restLine } from './rest-line.ts';
import { workLine } from './work-line.ts';

/**
 * The one line that tells a technician what happens, how far it is and what comes next: `STATUS=`
 * of sd_notify(3), at most 200 characters. Work comes first, then what keeps everything from going
 * on, then the medium that was plugged in last, then the rest. What does not fit is left out as
 * whole sentences, the most important ones last.
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
  const told = isIdle && alarms.length > 0 ? [...alarms, line.replace('Idle. ', '')].join(' ') : line;
  const wrong = wrongStickNote(observed, assessment, line, line === media);
  // While nothing is trusted every stick is a wrong one: why it is so keeps its room.
  const keepsRoom = wrong !== '' && !observed.trust.revocationsUnreadable;
  const room = MAX_LINE_LENGTH - (keepsRoom ? wrong.length + 1 : 0);
  const notes = [wrong, ...(isIdle ? [] : alarms), ...stateNotes(snapshot)];
  return fitted([...sentencesOf(fitted(sentencesOf(oneLine(told)), room)), ...notes]);
}

/** What is waited for: what a person has to do comes before what ends by itself. */
function waitingLine({ observed, memory, assessment }: Snapshot, media: string | undefined): string | undefined {
  const { bundles } = assessment;
  const urgent = urgentAmong(bundles);
  return (
    askedLine(urgent.length === 0 ? bundles : urgent, assessment) ??
    media ??
    (memory.contentChecks?.running && checkLine(memory.contentChecks.running)) ??
    bundleTrouble(urgent, assessment) ??
    failedMediaLine(observed) ??
    (urgent.some(({ phase }) => phase === 'ready') ? restLine(observed, assessment) : undefined) ??
    askedLine(bundles, assessment) ??
    bundleTrouble(bundles, assessment)
  );
}

/**
 * Names the stick that was plugged in last of those that bring nothing, where the line does not: it
 * has room whatever else there is to say. Empty when there is none.
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

/** What is wrong with what an administrator gave this node, though its work may go on. */
function alarmsOf({ trust, facts }: Observed): readonly string[] {
  const { settingsFault } = facts;
  const refused =
    settingsFault === undefined
      ? []
      : [`The new settings are refused: ${settingsFault}`, "See 'stickpin config check'"];
  return [...(trust.alarm === undefined ? [] : [trust.alarm]), ...refused].map((text) => sentence(oneLine(text)));
}

/** What is wrong with our own state, and notes about streams. */
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
