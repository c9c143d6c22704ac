import { oneLine } from '../../../platform/plain-text.ts';
import { bundleName } from '../../model/bundle.ts';
import { shortDigest } from '../../model/digest.ts';
import type { BundleLabel, Reason } from '../../model/reason.ts';
import type { StoredBundle } from '../../state/state.ts';
import type { Does } from '../actions.ts';
import { doesAbout, meaningOf } from '../codes.ts';
import { type Conclusion, codesWhere, type Entries, type Remedy, type Said } from '../entries.ts';
import type { Line, LineWords } from '../line.ts';
import { BRIEF, hasNamesake, type KeptBundles, type Names, WHOLE } from '../names.ts';
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
  const { what, details = [], next, run, also = [] } = saidOf(reason, WHOLE);
  return message([what, ...details, next, run, ...also]);
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

/** What a line says of a reason. */
export function reasonWords(reason: Reason, names: Names): LineWords {
  if (!('message' in reason)) return saidOf(reason, names);
  return { what: oneLine(reason.message), atNode: meaningOf(reason.code) };
}

/** What a person does about it. */
export function doesFor(reason: Reason): Does {
  if ('message' in reason) return doesAbout(reason.code);
  const { does, remedy } = REASONS[reason.code];
  return saidOf(reason, BRIEF).does ?? does ?? (remedy === undefined ? 'wait' : 'call-support');
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
