import { cutAtWord, oneLine, sentence } from '../../platform/plain-text.ts';
import { ACTIONS, type ActionWords, callsSupport, type Does } from './actions.ts';
import { meaningOf, shortCode } from './codes.ts';
import type { Said } from './entries.ts';
import { BRIEF, type Names, WHOLE, withShortDigests } from './names.ts';

/** The text of a line, without the action of people. */
export interface LineWords extends Omit<Said, 'does'> {
  /** The progress, which follows `what`. */
  readonly progress?: string | undefined;
  /** Replaces `what` for a person at the node, since another program wrote `what`. */
  readonly atNode?: string | undefined;
  /** These sentences keep their room behind `what`. */
  readonly notes?: readonly string[];
}

/** The line about a node: its text, the action of a person, and its subject. */
export interface Line {
  readonly does: Does;
  /** The code, such as `media/filesystem`. */
  readonly code?: string | undefined;
  readonly says: (names: Names) => LineWords;
  /**
   * Set for a line about a plugged stick. A `free` one may be removed once nothing else needs it.
   * One that `stays` is being read.
   */
  readonly stick?: 'free' | 'stays' | undefined;
  /** The sticks that a person may remove, if "the stick" could be another one. */
  readonly removed?: readonly string[];
}

/** The longest STATUS line, in characters. */
const MAX_LINE_LENGTH = 200;

/** The first sentence keeps this room, whatever notes follow it. */
const MIN_FIRST_LENGTH = 60;

/** Returns `CALL SUPPORT (K-03): `. Empty for an action without words. */
export function headOf({ does, code }: Line): string {
  return `${ACTIONS[does].words}${code === undefined ? '' : ` (${shortCode(code)})`}: `;
}

/**
 * Returns `STATUS=` of sd_notify(3), at most 200 characters: the action, its code, the fact, the
 * consequence of the action, the remedy, and as many whole sentences as fit. A first sentence that
 * is too long is cut at a word: `stickpin status` has the whole text.
 */
export function statusText(line: Line, names: Names = BRIEF): string {
  const head = headOf(line);
  const { what, progress, kept, more } = sentencesOf(line, names);
  const longest = MAX_LINE_LENGTH - head.length - MIN_FIRST_LENGTH;
  const end = kept.reduce((text, one) => (text.length + 1 + one.length > longest ? text : `${text} ${one}`), '');
  const room = MAX_LINE_LENGTH - head.length - end.length;
  const longer = closed(`${what}, ${progress}`);
  const first = progress === undefined || longer.length > room ? closed(what) : longer;
  const begin = `${head}${cutAtWord(first, room)}${end}`;
  return more.reduce((text, one) => (text.length + 1 + one.length > MAX_LINE_LENGTH ? text : `${text} ${one}`), begin);
}

/** Returns whole sentences of any length, without progress, which is shown as a bar. */
export function wholeText(line: Line, names: Names = WHOLE): string {
  const { what, kept, more } = sentencesOf(line, names);
  return [closed(what), ...kept, ...more].join(' ');
}

/** Returns the text for a person at the node who has no shell. */
export function textAtNode(line: Line, names: Names = WHOLE): string {
  const { what, atNode = what, next, isNextSaid, notes = [] } = line.says(names);
  return [atNode, ...afterAction(line, names), ...notes, callsSupport(line.does) || isNextSaid ? '' : next]
    .flatMap((text) => (text ? [closed(text)] : []))
    .join(' ');
}

/** Returns the fault and the remedy, without the consequence of the action. */
export function needText(line: Line, names: Names = WHOLE): string {
  return wholeText({ ...line, does: 'call-support' }, names);
}

function sentencesOf(line: Line, names: Names) {
  const { what, progress, notes = [], next, isNextSaid, run, details = [], also = [] } = line.says(names);
  const kept = [...afterAction(line, names), ...notes.map(closed)];
  const all = [isNextSaid ? '' : next, run, ...details, ...also].flatMap((text) => (text ? [closed(text)] : []));
  return { what, progress, kept, more: [...new Set(all)].filter((text) => !kept.includes(text)) };
}

/** Returns the consequence of the action. */
function afterAction({ does, removed = [] }: Line, names: Names): readonly string[] {
  const { after, removes, words }: ActionWords = ACTIONS[does];
  const isSaid = words.startsWith('REMOVE') && removed.length === 0;
  const sticks = removed.length === 0 ? 'the stick' : names.list(removed, '', ' and ');
  return [...(removes && !isSaid ? [`Remove ${sticks}.`] : []), ...(after === undefined ? [] : [after])];
}

/** Adds a full stop, and a capital letter if a name comes first. */
function closed(text: string): string {
  const line = withShortDigests(oneLine(text)).replace(/^the stick\b/, 'The stick');
  return /[.!?]$/.test(line) ? line : `${line}.`;
}

/** Joins two lines: the other one follows. */
export function withMore(line: Line, other: Line): Line {
  return {
    ...line,
    says: (names) => {
      const words = line.says(names);
      const { what, next, run, details = [], also = [] } = other.says(names);
      const more = [what, next, run, ...details, ...also].flatMap((text) =>
        text && text !== words.what ? [text] : [],
      );
      return { ...words, also: [...(words.also ?? []), ...more] };
    },
  };
}

/** Makes a line from a text of another program or an adapter. */
export function foreignLine(
  about: Pick<Line, 'does' | 'code'>,
  head: string,
  message: string,
  after: readonly (string | undefined)[] = [],
): Line {
  const atNode = about.code === undefined ? undefined : meaningOf(about.code);
  const details = after.filter((text) => text !== undefined);
  return { ...about, says: () => ({ what: `${head}${sentence(oneLine(message))}`, atNode, details }) };
}
