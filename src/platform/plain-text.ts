/**
 * Invisible Unicode characters that change how the text around them reads: bidirectional overrides,
 * zero-width characters, fillers. Lone surrogates too.
 */
const UNSEEN = /[\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]+/gu;
/** Control characters, and separators that some programs treat as line ends. */
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}]+/gu;
/** The same without line ends, tabs and the characters that begin terminal sequences. */
const FOREIGN_CONTROLS = /[\u0080-\u009f\p{Zl}\p{Zp}]+/gu;

/**
 * External text (labels, file names, payloads, errors of other programs) as plain text in one line.
 * Each run of control characters, line ends and separators becomes one blank; format characters and
 * lone surrogates are removed. Blanks stay, so that a path in it still works.
 */
export function plainText(text: string): string {
  return text.replace(UNSEEN, '').replace(CONTROLS, ' ');
}

/** As {@link plainText}, with line ends (`\n`) kept. */
export function plainLines(text: string): string {
  return text.split('\n').map(plainText).join('\n');
}

/**
 * Cleans the output of a program for a terminal, including JSON: as {@link plainText}, but line
 * ends, tabs and escape sequences of the program stay. This is the last of several guards; external
 * text was cleaned before.
 */
export function terminalText(text: string): string {
  return text.replace(UNSEEN, '').replace(FOREIGN_CONTROLS, ' ');
}

/** A document in which each text, except names of members, is replaced by its {@link plainText}. */
export function plainDocument<T>(document: T): T {
  return plainValue(document) as T;
}

/**
 * `text` as {@link plainText}, with one blank for each run of blanks. For errors of other programs,
 * which may have several lines.
 */
export function oneLine(text: string): string {
  return plainText(text).replace(/\s+/gu, ' ').trim();
}

/**
 * `text`, cut to `maxLength` UTF-16 units with `…` at its end when it is longer. Characters are not
 * split.
 */
export function clip(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  return `${text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** `text` with a full stop at its end, unless it already ends a sentence. */
export function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

function plainValue(value: unknown): unknown {
  if (typeof value === 'string') return plainText(value);
  if (Array.isArray(value)) return value.map(plainValue);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plainValue(member)]));
}

/**
 * A text file as editors and shells write it: UTF-8, or UTF-16 with a byte order mark, which is
 * left out.
 *
 * @param isStrict throws a TypeError where bytes are no such text; otherwise they become `\ufffd`.
 */
export function decodeText(bytes: Uint8Array, isStrict = false): string {
  const mark = `${bytes[0]} ${bytes[1]}`;
  const encoding = mark === '255 254' ? 'utf-16le' : mark === '254 255' ? 'utf-16be' : 'utf-8';
  return new TextDecoder(encoding, { fatal: isStrict }).decode(bytes);
}
