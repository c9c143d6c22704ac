import { oneLine, sentence } from '../../../platform/plain-text.ts';
import { ACTIONS, type ActionWords, type Does } from '../actions.ts';
import { shortCode } from '../codes.ts';
import { BRIEF, fitted, foreignSentences, MAX_LINE_LENGTH, type Names, sentencesOf, WHOLE } from '../fitted.ts';

/** How much room a text has, and how the names in it are written. */
export interface Width {
  readonly room: number;
  readonly names: Names;
}

/** For STATUS. */
export const NARROW: Width = { room: MAX_LINE_LENGTH, names: BRIEF };

export const WIDE: Width = { room: Number.POSITIVE_INFINITY, names: WHOLE };

export function narrowed(width: Width, by: number): Width {
  return { ...width, room: width.room - by };
}

export interface Line {
  readonly does: Does;
  /** `media/filesystem` */
  readonly code?: string | undefined;
  readonly text: (width: Width) => string;
  /**
   * Of a line about a stick that is plugged in. `free`: it may go once nothing else needs it;
   * `stays`: it is read.
   */
  readonly stick?: 'free' | 'stays' | undefined;
  /** Which sticks a person may remove, where "the stick" could be another one. */
  readonly removed?: readonly string[];
}

/** `CALL SUPPORT (K-03): `. Empty where it needs no words. */
export function headOf({ does, code }: Pick<Line, 'does' | 'code'>): string {
  return `${ACTIONS[does].words}${code === undefined ? '' : ` (${shortCode(code)})`}: `;
}

/**
 * `STATUS=` of sd_notify(3), at most 200 characters. What does not fit is left out as whole
 * sentences, the most important ones last.
 */
export function statusText(line: Line): string {
  const head = headOf(line);
  return `${head}${line.text(narrowed(NARROW, head.length))}`;
}

/** The text with what follows from the action. */
export function bodyOf({ does, text, removed = [] }: Line, width: Width): string {
  const { after: last = '', removes }: ActionWords = ACTIONS[does];
  const isSaid = ACTIONS[does].words.startsWith('REMOVE') && removed.length === 0;
  const sticks = removed.length === 0 ? 'the stick' : width.names.list(removed, '', ' and ');
  const after = [removes && !isSaid ? `Remove ${sticks}.` : '', last].filter((text) => text !== '').join(' ');
  if (after === '') return text(width);
  const [first = '', ...more] = sentencesOf(text(narrowed(width, after.length + 1)));
  return [first, after, ...more].join(' ');
}

/** A line with a text that another program or an adapter made. */
export function foreignLine(
  about: Pick<Line, 'does' | 'code'>,
  head: string,
  message: string,
  after: readonly string[] = [],
): Line {
  const [first = '', ...more] = foreignSentences(message);
  return {
    ...about,
    text: ({ room }) =>
      inOrder([`${head}${sentence(oneLine(message))}`, ...after], [`${head}${first}`, ...more, ...after], room),
  };
}

/** Of a process that started with wrong settings. @param fault names the file and the key */
export function wrongSettingsLine(fault: string, meanwhile: string): Line {
  return foreignLine({ does: 'call-support', code: 'config/wrong' }, 'The settings are wrong: ', fault, [
    meanwhile,
    "See 'stickpin config check'.",
  ]);
}

/**
 * Of a service that can't start, which systemd shows until the next start. @param code of the error
 * @param reason its message
 */
export function startFaultLine(code: string | undefined, reason: string): Line {
  return foreignLine({ does: 'call-support', code: code ?? 'unforeseen' }, "Can't start: ", reason);
}

/**
 * The sentences in the order in which they read best when all fit, else as many of them as fit, the
 * most important ones first.
 */
export function inOrder(reading: readonly string[], byWeight: readonly string[], room: number): string {
  const all = fitted(reading, Number.POSITIVE_INFINITY);
  return all.length <= room ? all : fitted(byWeight, room);
}
