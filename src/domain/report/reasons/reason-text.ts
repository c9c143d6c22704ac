import { oneLine } from '../../../platform/plain-text.ts';
import { bundleName } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { BundleLabel, Reason } from '../../model/reason.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { Does } from '../actions.ts';
import { doesAbout, meaningOf, REASONS } from '../codes.ts';
import { type Conclusion, codesWhere, type Said } from '../entries.ts';
import type { Line, LineWords } from '../line.ts';
import { BRIEF, hasNamesake, type KeptBundles, type Names, WHOLE } from '../names.ts';
import { REFUSAL_REASONS } from './bundle-reasons.ts';

/** A reason for people and programs. `message` has sentences, mostly without the last full stop. */
export interface ShownReason {
  readonly code: string;
  readonly message: string;
}

function saidOf(reason: Conclusion, names: Names): Said {
  const says = REASONS[reason.code].says as (data: Conclusion['data'], names: Names) => Said;
  return says(reason.data, names);
}

/** Reasons of adapters have their own sentence. */
export function reasonText(reason: Reason): string {
  return 'message' in reason ? reason.message : messageOf(saidOf(reason, WHOLE));
}

/** Joins sentences, without the last full stop. */
export function messageOf({ what, details = [], next, run, also = [] }: Said): string {
  return joined([what, ...details, next, run, ...also]);
}

/** See {@link messageOf}. */
export function joined(sentences: readonly (string | undefined)[]): string {
  const texts = sentences.filter((text) => text !== undefined);
  return texts.map(closed).join(' ').replace(/\.$/, '');
}

/** Adds a full stop also after `…`, which ends a name or a digest, but no sentence. */
function closed(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

export function shownReason(reason: Reason): ShownReason {
  return { code: reason.code, message: reasonText(reason) };
}

/** Returns the text of a line about a reason. */
export function reasonWords(reason: Reason, names: Names): LineWords {
  if (!('message' in reason)) return saidOf(reason, names);
  return { what: oneLine(reason.message), atNode: meaningOf(reason.code) };
}

/** Returns the action of a person about a reason. */
export function doesFor(reason: Reason): Does {
  const does = 'message' in reason ? undefined : saidOf(reason, BRIEF).does;
  return does ?? doesAbout(reason.code);
}

/** @param bundle its bundle, if the title could mean another one of `bundles` */
export function reasonLine(reason: Reason, bundle?: StoredBundle, bundles: KeptBundles = []): Line {
  const which =
    bundle !== undefined && hasNamesake(bundle, bundles)
      ? { notes: [`This is bundle ${shortDigest(bundle.bundleId)}`] }
      : {};
  return {
    does: doesFor(reason),
    code: reason.code,
    says: (names) => ({ ...reasonWords(reason, names), ...which }),
  };
}

/** @param why the person's own words */
export function rejectedNameText(release: BundleLabel, why: string | undefined): string {
  return joined([
    `${bundleName(release)} was rejected on this node, also for sticks that come later`,
    why && `Reason: ${why}`,
    `'stickpin approve ${bundleName(release)}' takes that back`,
  ]);
}

/** Neither another copy nor time changes these refusals. */
export const FINAL_REFUSALS = codesWhere(REFUSAL_REASONS, ({ isFinal }) => isFinal);
