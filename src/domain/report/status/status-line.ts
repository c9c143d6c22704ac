import { clip, oneLine, sentence } from '../../../platform/plain-text.ts';
import { type Assessment, allBundles } from '../../assess/assess.ts';
import { wantedReleases } from '../../fleet/wanted-release.ts';
import type { Observed } from '../../state/state.ts';
import { unclaimedNote } from '../events/pin-events.ts';
import { hookNotes } from '../hook-report.ts';
import type { Snapshot } from '../snapshot.ts';
import { streamNotes } from '../stream-report.ts';
import { checkLine } from '../texts/content-text.ts';
import { wantedReleaseText } from '../texts/fleet-text.ts';
import { blockedLine } from './blocked-line.ts';
import { bundleTrouble } from './bundle-lines.ts';
import { copyLine } from './copy-line.ts';
import { heldLine, MAX_HELD_LENGTH } from './held-line.ts';
import { mediaLine } from './media-line.ts';
import type { Progress } from './progress-text.ts';
import { restLine } from './rest-line.ts';
import { workLine } from './work-line.ts';

/** Longest line, in characters. What is longer was made longer by a foreign error, and is cut. */
const MAX_LENGTH = 500;

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
    (memory.contentChecks?.running && checkLine(memory.contentChecks.running)) ??
    bundleTrouble(assessment.bundles, assessment) ??
    failedMediaLine(observed) ??
    restLine(observed, assessment);
  return clip(oneLine(withStateNotes(line, snapshot)), MAX_LENGTH);
}

/** Adds what is wrong with our own state, and notes about streams, as far as there is room. */
function withStateNotes(line: string, { observed, memory, assessment }: Snapshot): string {
  const { stateProblems, hooks } = memory;
  const maxLength = isHeldLine(line, assessment) ? MAX_HELD_LENGTH : MAX_LENGTH;
  const lost = stateProblems.length === 0 ? [] : ["What was recorded is lost in part: see 'stickpin doctor'."];
  const unclaimed = unclaimedNote(assessment) ?? [];
  const ofHooks = hookNotes(hooks, assessment.bundles, observed.now);
  const ofStreams = [...assessment.paths.values()].flatMap(streamNotes);
  const wanted = wantedReleases(observed.fleet, allBundles(assessment)).map(wantedReleaseText);
  return [...lost, ...wanted, unclaimed, ...ofStreams, ofHooks].flat().reduce((told, note) => {
    const longer = `${sentence(told)} ${note}`;
    return longer.length <= maxLength ? longer : told;
  }, line);
}

/** Whether a line is about a held activation, maybe with notes. */
function isHeldLine(line: string, { bundles }: Assessment): boolean {
  return bundles.some((entry) => line.startsWith(heldLine(entry, bundles) ?? '\n'));
}

function failedMediaLine({ media }: Observed): string | undefined {
  const failed = media.findLast((medium) => medium.state.kind === 'failed');
  return failed?.state.kind === 'failed' ? `Cannot read ${failed.label}: ${failed.state.reason.message}` : undefined;
}
