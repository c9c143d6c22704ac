import { oneLine } from '../../../platform/plain-text.ts';
import { bundleName } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { BundleLabel, Reason } from '../../model/reason.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { Does } from '../actions.ts';
import { doesAbout } from '../codes.ts';
import {
  BRIEF,
  type Conclusion,
  codesWhere,
  type Entries,
  fitted,
  foreignSentences,
  hasNamesake,
  type KeptBundles,
  MAX_LINE_LENGTH,
  type Names,
  type Remedy,
  type Said,
  SEE_LIST,
  WHOLE,
  withShortDigests,
} from '../fitted.ts';

import { REFUSAL_REASONS, RELEASE_REASONS } from './bundle-reasons.ts';
import { HOLDS } from './holds.ts';
import { IMAGE_REASONS } from './image-reasons.ts';

/**
 * A reason as people and programs get it. `message`: sentences, mostly without the last full stop.
 */
export interface ShownReason {
  readonly code: string;
  readonly message: string;
}

export const REASONS: Entries<Conclusion> = { ...REFUSAL_REASONS, ...RELEASE_REASONS, ...IMAGE_REASONS };

function saidOf(reason: Conclusion, names: Names): Said {
  const says = REASONS[reason.code].says as (data: Conclusion['data'], names: Names) => Said;
  return says(reason.data, names);
}

/** Reasons of adapters have a sentence of their own. */
export function reasonText(reason: Reason): string {
  if ('message' in reason) return reason.message;
  const { what, details = [], next, also = [] } = saidOf(reason, WHOLE);
  return message([what, ...details, next, ...also]);
}

function message(sentences: readonly (string | undefined)[]): string {
  const said = sentences.filter((text) => text !== undefined);
  return said.map(closed).join(' ').replace(/\.$/, '');
}

/** With a full stop after `…` too, which ends a name or a digest, and no sentence. */
function closed(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

export function shownReason(reason: Reason): ShownReason {
  return { code: reason.code, message: reasonText(reason) };
}

/**
 * A reason in at most `maxLength` characters: what is wrong, what to do, and details while there is
 * room, each as a whole sentence. Names are short where whole ones don't fit.
 * `more`: as for {@link fitted}.
 */
export function reasonWithin(reason: Reason, maxLength: number = MAX_LINE_LENGTH, more?: string): string {
  if ('message' in reason) {
    const whole = closed(oneLine(reason.message));
    return whole.length <= maxLength ? whole : fitted(foreignSentences(reason.message), maxLength, more);
  }
  const [whole, brief] = [saidOf(reason, WHOLE), saidOf(reason, BRIEF)];
  const all = byWeight(whole).join(' ');
  // A long name would push what is wrong beyond the first 80 characters.
  if (all.length <= maxLength && (brief.what === whole.what || maxLength > MAX_LINE_LENGTH)) return all;
  const details = brief.details?.flatMap(foreignSentences) ?? [];
  return fitted([...byWeight({ ...brief, details }), SEE_LIST], maxLength, more);
}

/** What is wrong, without what to do: for work that goes on. */
export function wrongWithin(reason: Reason, maxLength: number): string {
  const what = (names: Names) =>
    'message' in reason ? (foreignSentences(reason.message)[0] ?? '') : saidOf(reason, names).what;
  const [whole = '', brief = ''] = [WHOLE, BRIEF].map((names) => withShortDigests(oneLine(what(names))));
  return whole.length <= maxLength ? whole : fitted([brief], maxLength);
}

/** What a person does about it. */
export function doesFor(reason: Reason): Does {
  if ('message' in reason) return doesAbout(reason.code);
  const { does, remedy } = REASONS[reason.code];
  return saidOf(reason, BRIEF).does ?? does ?? (remedy === undefined ? 'wait' : 'call-support');
}

/** A line about a reason. `bundle`: whose it is, for one that could be another one. */
export function reasonLine(
  reason: Reason,
  bundle?: StoredBundle,
  bundles: KeptBundles = [],
): { readonly does: Does; readonly code: string; readonly text: (width: { readonly room: number }) => string } {
  return {
    does: doesFor(reason),
    code: reason.code,
    text: ({ room }) =>
      bundle === undefined ? reasonWithin(reason, room) : reasonAmong(reason, bundle, bundles, room),
  };
}

/** As a STATUS line has them: where there is little room, the last ones are left out. */
function byWeight({ what, next = '', isNextSaid, details = [], also = [] }: Said): readonly string[] {
  return [what, isNextSaid ? '' : next, ...details, ...also]
    .filter((text) => text !== '')
    .map((text) => closed(withShortDigests(oneLine(text))));
}

/**
 * A reason that speaks of the bundle by its title, with the digest in short added where that is not
 * enough.
 */
function reasonAmong(reason: Reason, bundle: StoredBundle, bundles: KeptBundles, room: number): string {
  if (!hasNamesake(bundle, bundles)) return reasonWithin(reason, room);
  const which = `This is bundle ${shortDigest(bundle.bundleId)}.`;
  return fitted([reasonWithin(reason, room - which.length - 1), which], room);
}

/** `why`: in the words of the person. */
export function rejectedNameText(release: BundleLabel, why: string | undefined): string {
  return message([
    `${bundleName(release)} was rejected on this node, also for sticks that come later`,
    why && `Reason: ${why}`,
    `'stickpin approve ${bundleName(release)}' takes that back`,
  ]);
}

/** What a person or this node ends; no other node can. */
export const OWN_CODES: ReadonlySet<string> = new Set([
  ...codesWhere(HOLDS, ({ isOwn }) => isOwn),
  ...codesWhere(REASONS, ({ isOwn }) => isOwn),
]);

/** What an administrator ends, as planned. */
export const ADMIN_CODES: ReadonlySet<string> = new Set([
  ...codesWhere(HOLDS, ({ isForAdmin }) => isForAdmin),
  ...codesWhere(REASONS, ({ isForAdmin }) => isForAdmin),
]);

/** Refusals that no other copy changes, and no time. */
export const FINAL_REFUSALS = codesWhere(REFUSAL_REASONS, ({ isFinal }) => isFinal);

/** The remedies of reasons and holds, by code. */
const REMEDIES: ReadonlyMap<string, Remedy | undefined> = new Map(
  Object.entries({ ...HOLDS, ...REASONS }).map(([code, { remedy }]) => [code, remedy]),
);

/** Undefined where it ends automatically, and for a code that is no reason and no hold. */
export function knownRemedy(code: string, release: string): string | undefined {
  return REMEDIES.get(code)?.(release);
}

/**
 * A clause without full stop; undefined where it ends automatically. What an adapter reports says
 * it in its own message. `release`: as `ocp@4.13.7`.
 */
export function remedyFor(code: string, release: string): string | undefined {
  if (REMEDIES.has(code)) return REMEDIES.get(code)?.(release);
  return `see 'stickpin show ${release}' and 'journalctl -u stickpin -x'`;
}
