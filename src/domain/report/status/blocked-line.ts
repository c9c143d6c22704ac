import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { unsupportedReason } from '../../assess/derive-phase.ts';
import { isRecordingTrouble, isStateDamage } from '../../preload/disk-trouble.ts';
import { briefName, briefTitle } from '../brief/brief-name.ts';
import { fitted, foreignSentences, inOrder, MAX_LINE_LENGTH } from '../brief/fitted.ts';
import { titleAmong } from '../brief/namesake.ts';
import { reasonWithin } from '../brief/reason-within.ts';
import type { Snapshot } from '../snapshot.ts';
import { runtimeAway } from '../texts/runtime-away.ts';

/** What keeps every bundle from going on. */
export function blockedLine({ observed, memory, assessment }: Snapshot): string | undefined {
  const { runtime, trust } = observed;
  const { obstacle } = memory;
  const { bundles, adoptions } = assessment;
  if (trust.revocationsUnreadable && trust.require !== 'approval') {
    return withForeign(
      "Nothing is trusted, since revocations can't be read: ",
      trust.cause ?? "see 'stickpin doctor'",
      ['What is pinned stays.'],
    );
  }
  const waiting = bundles.find((entry) => entry.phase === 'held' && entry.badBlobs.length === 0);
  const waits = waiting === undefined ? '' : `${titleAmong(waiting.bundle, bundles)} waits for it.`;
  if (runtime.kind !== 'reachable') {
    const { what, next } = runtimeAway(runtime);
    return inOrder([oneLine(what), waits, next], [oneLine(what), next, waits]);
  }
  const tooOld = unsupportedReason(runtime);
  if (tooOld !== undefined) return fitted([reasonWithin(tooOld, MAX_LINE_LENGTH - waits.length - 1), waits]);
  if (obstacle === undefined) return undefined;
  if (!isRecordingTrouble(obstacle)) return withForeign('', obstacle.message, ['It is retried automatically.']);
  const [awaited] = adoptions;
  const what =
    awaited === undefined
      ? ''
      : `${briefTitle(awaited.found.bundle.payload)} on ${briefName(awaited.label)} waits for it.`;
  const next = isStateDamage(obstacle) ? '' : 'stickpin continues automatically.';
  return withForeign('', obstacle.message, [what, next]);
}

/** A line with what an adapter says, and what follows from it. */
function withForeign(head: string, message: string, after: readonly string[]): string {
  const [first = '', ...more] = foreignSentences(message);
  return inOrder([`${head}${sentence(oneLine(message))}`, ...after], [`${head}${first}`, ...more, ...after]);
}
