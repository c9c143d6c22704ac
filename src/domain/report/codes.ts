import type { Does } from './actions.ts';
import { type Conclusion, codesWhere, type Entries, type Known } from './entries.ts';
import { REFUSAL_REASONS, RELEASE_REASONS } from './reasons/bundle-reasons.ts';
import { FAULTS } from './reasons/faults.ts';
import { HOLDS } from './reasons/holds.ts';
import { IMAGE_REASONS } from './reasons/image-reasons.ts';
import { RUNTIME_REASONS } from './reasons/runtime-reasons.ts';

export const REASONS: Entries<Conclusion> = {
  ...REFUSAL_REASONS,
  ...RELEASE_REASONS,
  ...IMAGE_REASONS,
  ...RUNTIME_REASONS,
};

/** All entries with a short code. */
const TABLE: Readonly<Record<string, Known>> = { ...FAULTS, ...HOLDS, ...REASONS };

function known(code: string): Known | undefined {
  return Object.hasOwn(TABLE, code) ? TABLE[code] : undefined;
}

/**
 * M: stick, B: bundle, K: keys, R: runtime, D: disk, S: state, C: settings, A: activation, F: other
 * nodes, H: hooks.
 */
const LETTERS = 'MBKRDSCAFH';

function orderOf({ short }: Known): number {
  return LETTERS.indexOf(short.charAt(0)) * 100 + Number(short.slice(2));
}

/** Sorted by their short codes. */
export const CODES: readonly (Known & { readonly code: string })[] = Object.entries(TABLE)
  .map(([code, entry]) => ({ ...entry, code }))
  .sort((a, b) => orderOf(a) - orderOf(b));

/** Returns `M-12` for `engine/needs-copy`, and undefined for a code without one. */
export function knownShortCode(code: string): string | undefined {
  return known(code)?.short;
}

/** Like {@link knownShortCode}, with the code for unforeseen faults as default. */
export function shortCode(code: string): string {
  return (known(code) ?? FAULTS.unforeseen).short;
}

/** Explains a code in a sentence for a person who has only the screen of the node. */
export function meaningOf(code: string): string {
  return `${(known(code) ?? FAULTS.unforeseen).means}.`;
}

/** Returns the action of a person for a code, unless its data says it. */
export function doesAbout(code: string): Does {
  const { does, remedy } = known(code) ?? FAULTS.unforeseen;
  return does ?? (remedy === undefined ? 'wait' : 'call-support');
}

/** Returns the journal entry for a release that the code holds. Undefined: reported elsewhere. */
export function eventOf(code: string): Exclude<Known['event'], 'reported-elsewhere'> {
  const { event = 'bundleHeld' } = known(code) ?? FAULTS.unforeseen;
  return event === 'reported-elsewhere' ? undefined : event;
}

/** Only a person or this node ends these, never another node. */
export const OWN_CODES = codesWhere(TABLE, ({ isOwn }) => isOwn);

/** Only an administrator ends these. */
export const ADMIN_CODES = codesWhere(TABLE, ({ isForAdmin }) => isForAdmin);

/**
 * Returns a clause without full stop. Undefined when it ends automatically, or when the message of
 * an adapter says it. @param release `ocp@4.13.7`
 */
export function remedyFor(code: string, release: string): string | undefined {
  const entry = known(code);
  if (entry === undefined || code in FAULTS) return `see 'stickpin show ${release}' and 'journalctl -u stickpin -x'`;
  return entry.remedy?.(release);
}
