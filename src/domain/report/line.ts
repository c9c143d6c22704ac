import { cutAtWord, oneLine, sentence } from '../../platform/plain-text.ts';
import { ACTIONS, type ActionWords, callsSupport, type Does } from './actions.ts';
import { meaningOf, shortCode } from './codes.ts';
import type { Said } from './entries.ts';
import { BRIEF, type Names, WHOLE, withShortDigests } from './names.ts';

/** What a line says, beside what people do. */
export interface LineWords extends Omit<Said, 'does'> {
  /** How far it is: it follows `what`. */
  readonly progress?: string | undefined;
  /** In the place of `what`, for somebody at the node: `what` is not of our words. */
  readonly atNode?: string | undefined;
  /** What keeps its room behind `what`. */
  readonly notes?: readonly string[];
}

/** The line about a node: what it says, what a person does, and what it is about. */
export interface Line {
  readonly does: Does;
  /** `media/filesystem` */
  readonly code?: string | undefined;
  readonly says: (names: Names) => LineWords;
  /**
   * Of a line about a stick that is plugged in. `free`: it may go once nothing else needs it;
   * `stays`: it is read.
   */
  readonly stick?: 'free' | 'stays' | undefined;
  /** Which sticks a person may remove, where "the stick" could be another one. */
  readonly removed?: readonly string[];
}

/** Longest STATUS line, in characters. */
const MAX_LINE_LENGTH = 200;

/** For what is the case, whatever keeps its room behind it. */
const MIN_FIRST_LENGTH = 60;

/** `CALL SUPPORT (K-03): `. Empty where it needs no words. */
export function headOf({ does, code }: Pick<Line, 'does' | 'code'>): string {
  return `${ACTIONS[does].words}${code === undefined ? '' : ` (${shortCode(code)})`}: `;
}

/**
 * `STATUS=` of sd_notify(3), at most 200 characters: the action, its code, what is the case, what
 * follows from the action, what to do, and as many whole sentences more as there is room for. Too
 * long a first sentence is cut at a word: `stickpin status` has the whole text.
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

/** The same as whole sentences, however long, without progress, which is shown as a bar. */
export function wholeText(line: Line, names: Names = WHOLE): string {
  const { what, kept, more } = sentencesOf(line, names);
  return [closed(what), ...kept, ...more].join(' ');
}

/** For somebody at the node who has no shell. */
export function textAtNode(line: Line, names: Names = WHOLE): string {
  const { what, atNode = what, next, isNextSaid, notes = [] } = line.says(names);
  return [atNode, ...afterAction(line, names), ...notes, callsSupport(line.does) || isNextSaid ? '' : next]
    .flatMap((text) => (text ? [closed(text)] : []))
    .join(' ');
}

/** What is wrong and what to do, without what follows from the action. */
export function needText(line: Line, names: Names = WHOLE): string {
  return wholeText({ ...line, does: 'call-support' }, names);
}

function sentencesOf(line: Line, names: Names) {
  const { what, progress, notes = [], next, isNextSaid, run, details = [], also = [] } = line.says(names);
  const kept = [...afterAction(line, names), ...notes.map(closed)];
  const all = [isNextSaid ? '' : next, run, ...details, ...also].flatMap((text) => (text ? [closed(text)] : []));
  return { what, progress, kept, more: [...new Set(all)].filter((text) => !kept.includes(text)) };
}

/** What follows from the action. */
function afterAction({ does, removed = [] }: Line, names: Names): readonly string[] {
  const { after, removes, words }: ActionWords = ACTIONS[does];
  const isSaid = words.startsWith('REMOVE') && removed.length === 0;
  const sticks = removed.length === 0 ? 'the stick' : names.list(removed, '', ' and ');
  return [...(removes && !isSaid ? [`Remove ${sticks}.`] : []), ...(after === undefined ? [] : [after])];
}

/** With a capital letter where a name begins it, and with a full stop. */
function closed(text: string): string {
  const line = withShortDigests(oneLine(text)).replace(/^the stick\b/, 'The stick');
  return /[.!?]$/.test(line) ? line : `${line}.`;
}

/** Two lines in one: what else is the case follows. */
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

/** A line with a text that another program or an adapter made. */
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
