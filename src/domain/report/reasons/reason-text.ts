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

/**
 * A reason as people and programs get it. `message`: sentences, mostly without the last full stop.
 */
export interface ShownReason {
  readonly code: string;
  readonly message: string;
}

function saidOf(reason: Conclusion, names: Names): Said {
  const says = REASONS[reason.code].says as (data: Conclusion['data'], names: Names) => Said;
  return says(reason.data, names);
}

/** Reasons of adapters have a sentence of their own. */
export function reasonText(reason: Reason): string {
  return 'message' in reason ? reason.message : messageOf(saidOf(reason, WHOLE));
}

/** As sentences, without the last full stop. */
export function messageOf({ what, details = [], next, run, also = [] }: Said): string {
  return joined([what, ...details, next, run, ...also]);
}

/** As {@link messageOf}. */
export function joined(sentences: readonly (string | undefined)[]): string {
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

/** What a line says of a reason. */
export function reasonWords(reason: Reason, names: Names): LineWords {
  if (!('message' in reason)) return saidOf(reason, names);
  return { what: oneLine(reason.message), atNode: meaningOf(reason.code) };
}

/** What a person does about it. */
export function doesFor(reason: Reason): Does {
  const said = 'message' in reason ? undefined : saidOf(reason, BRIEF).does;
  return said ?? doesAbout(reason.code);
}

/** @param bundle whose it is, for one whose title could mean another one of `bundles` */
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

/** `why`: in the words of the person. */
export function rejectedNameText(release: BundleLabel, why: string | undefined): string {
  return joined([
    `${bundleName(release)} was rejected on this node, also for sticks that come later`,
    why && `Reason: ${why}`,
    `'stickpin approve ${bundleName(release)}' takes that back`,
  ]);
}

/** Refusals that no other copy changes, and no time. */
export const FINAL_REFUSALS = codesWhere(REFUSAL_REASONS, ({ isFinal }) => isFinal);
