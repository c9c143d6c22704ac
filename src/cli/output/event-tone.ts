import type { MessageKind } from '../../platform/message-ids.ts';
import type { Tone } from './colour.ts';

/** Events that tell of a fault, or of something that was refused. */
const BAD: ReadonlySet<string> = new Set<MessageKind>([
  'activationFailed',
  'blobDamaged',
  'blobMissing',
  'bundleDegraded',
  'bundleRejected',
  'bundleRolledBack',
  'configurationRejected',
  'diskFull',
  'filesNotLaid',
  'hookFailed',
  'imageDamaged',
  'imagesMissing',
  'imagesUnlisted',
  'mediumFailed',
  'noKeys',
  'noSpace',
  'notInBundle',
  'pinsNotTaken',
  'policyRefused',
  'pullFailed',
  'pullStalled',
  'pullsUnanswered',
  'releaseNotRebuilt',
  'revocationsUnreadable',
  'roundFailed',
  'runtimeTooOld',
  'runtimeUnreachable',
  'stateLost',
  'tagContested',
  'tagsNotRestored',
  'trustWithdrawn',
]);

/** Events after which somebody waits, or has something to look at. */
const WARNING: ReadonlySet<string> = new Set<MessageKind>([
  'activationHeld',
  'approvalAwaited',
  'bundleHeld',
  'bundleWarned',
  'keysNotRotated',
  'mediumUnmounted',
  'pinsUnclaimed',
  'preloadPaused',
  'pullsFromElsewhere',
]);

/** The colour of an event of the history by its kind. */
export function toneOfEvent(kind: string): Tone | undefined {
  if (BAD.has(kind)) return 'bad';
  return WARNING.has(kind) ? 'warning' : undefined;
}
