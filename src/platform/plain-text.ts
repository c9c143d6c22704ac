/**
 * Unicode characters that nobody sees and that change how the text around them reads: bidirectional
 * overrides, zero-width ones, fillers. Lone surrogates too.
 */
const UNSEEN = /[\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]+/gu;
/** Control characters, and the separators that some programs take for line ends. */
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}]+/gu;
/** The same without line ends, tabs and what a terminal's own sequences begin with. */
const FOREIGN_CONTROLS = /[\u0080-\u009f\p{Zl}\p{Zp}]+/gu;

/**
 * `text` from outside (labels, file names, payloads, foreign errors) as plain text of one line: a
 * blank for every run of control characters, line ends and separators; format characters and lone
 * surrogates are removed. Blanks stay as they are, so that a path can still be found by it.
 */
export function plainText(text: string): string {
  return text.replace(UNSEEN, '').replace(CONTROLS, ' ');
}

/** As {@link plainText}, with line ends (`\n`) kept. */
export function plainLines(text: string): string {
  return text.split('\n').map(plainText).join('\n');
}

/**
 * What a program writes to a terminal, JSON included, without what {@link plainText} takes away
 * from text, but with the program's own line ends, tabs and escape sequences. The last of several
 * guards: text from outside has none of these by then.
 */
export function terminalText(text: string): string {
  return text.replace(UNSEEN, '').replace(FOREIGN_CONTROLS, ' ');
}

/** A document with {@link plainText} in the place of each text in it, names of members aside. */
export function plainDocument<T>(document: T): T {
  return plainValue(document) as T;
}

/**
 * `text` as {@link plainText}, with every run of blanks as one: foreign errors come in several
 * lines.
 */
export function oneLine(text: string): string {
  return plainText(text).replace(/\s+/gu, ' ').trim();
}

/**
 * `text`, cut to `maxLength` UTF-16 units with `…` at its end when it is longer. No character is
 * cut in two.
 */
export function clip(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  return `${text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** `text` with one full stop at its end, unless it ends a sentence already. */
export function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

function plainValue(value: unknown): unknown {
  if (typeof value === 'string') return plainText(value);
  if (Array.isArray(value)) return value.map(plainValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plainValue(member)]));
}
