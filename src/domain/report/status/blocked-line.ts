import { sentence } from '../../../platform/plain-text.ts';
import { unsupportedReason } from '../../assess/runtime-support.ts';
import { bundleTitle } from '../../model/bundle.ts';
import { isRecordingTrouble, isStateDamage } from '../../preload/disk-trouble.ts';
import { reasonText } from '../reasons/reason-text.ts';
import type { Snapshot } from '../snapshot.ts';
import { runtimeAway } from '../texts/runtime-away.ts';
import { titleAmong } from './namesake.ts';

/** What keeps every bundle from going on. */
export function blockedLine({ observed, memory, assessment }: Snapshot): string | undefined {
  const { runtime, trust } = observed;
  const { obstacle } = memory;
  const { bundles, adoptions } = assessment;
  if (trust.revocationsUnreadable && trust.require !== 'approval') {
    const cause = trust.cause ?? "see 'stickpin doctor'";
    return `Nothing is trusted, since revocations can't be read: ${sentence(cause)} What is pinned stays.`;
  }
  const waiting = bundles.find((entry) => entry.phase === 'held' && entry.badBlobs.length === 0);
  const waits = waiting === undefined ? '' : ` ${titleAmong(waiting.bundle, bundles)} waits for it.`;
  if (runtime.kind !== 'reachable') {
    const { what, next } = runtimeAway(runtime);
    return `${what}${waits} ${next}`;
  }
  const tooOld = unsupportedReason(runtime);
  if (tooOld !== undefined) return `${reasonText(tooOld)}${waits}`;
  if (obstacle === undefined) return undefined;
  if (!isRecordingTrouble(obstacle)) return `${sentence(obstacle.message)} It is retried automatically.`;
  const [awaited] = adoptions;
  const what =
    awaited === undefined ? '' : ` ${bundleTitle(awaited.found.bundle.payload)} on ${awaited.label} waits for it.`;
  const next = isStateDamage(obstacle) ? '' : ' stickpin continues automatically.';
  return `${sentence(obstacle.message)}${what}${next}`;
}
