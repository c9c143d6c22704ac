import type { MessageKind } from '../../platform/message-ids.ts';

/** What a text means: its colour on a terminal. `title`: a heading. */
export type Tone = 'good' | 'warning' | 'bad' | 'title';

/** Select Graphic Rendition (ECMA-48), in the eight colours that every terminal has. */
const CODES: Readonly<Record<Tone, string>> = { good: '32', warning: '33', bad: '1;31', title: '1' };

/** `text` in the colour of `tone`; unchanged without a tone or without colours. */
export function paint(text: string, tone: Tone | undefined, hasColour = false): string {
  return tone === undefined || !hasColour || text === '' ? text : `\u001b[${CODES[tone]}m${text}\u001b[0m`;
}

/** Paints each line of a text. */
export function paintLines(text: string, tone: Tone | undefined, hasColour = false): string {
  if (tone === undefined || !hasColour) return text;
  return text
    .split('\n')
    .map((line) => paint(line, tone, hasColour))
    .join('\n');
}

/**
 * Whether a program that writes to a terminal may use colours: not when `NO_COLOR` has a value
 * (https://no-color.org), and not on a terminal that says it has none (`TERM=dumb`).
 */
export function wantsColour({ NO_COLOR, TERM }: Readonly<Record<string, string | undefined>>): boolean {
  return (NO_COLOR ?? '') === '' && TERM !== 'dumb';
}

/** Events about a fault or a refusal. */
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

/** Events after which somebody waits, or should check something. */
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

export function toneOfEvent(kind: string): Tone | undefined {
  if (BAD.has(kind)) return 'bad';
  return WARNING.has(kind) ? 'warning' : undefined;
}
