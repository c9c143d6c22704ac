/** Bidirectional overrides, zero-width characters, fillers, lone surrogates. */
const UNSEEN = /[\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}]+/gu;
/** It includes separators that some programs treat as line ends. */
const CONTROLS = /[\p{Cc}\p{Zl}\p{Zp}]+/gu;
/** It excludes line ends, tabs and the characters that begin terminal sequences. */
const FOREIGN_CONTROLS = /[\u0080-\u009f\p{Zl}\p{Zp}]+/gu;

/**
 * External text (labels, file names, payloads, errors of programs) in one line: control characters,
 * line ends and separators become a blank; format characters and lone surrogates are removed.
 * Blanks stay, so that a path in it still works.
 */
export function plainText(text: string): string {
  return text.replace(UNSEEN, '').replace(CONTROLS, ' ');
}

/** Keeps line ends (`\n`). */
export function plainLines(text: string): string {
  return text.split('\n').map(plainText).join('\n');
}

/** {@link plainText} for output, but line ends, tabs and escape sequences stay. */
export function terminalText(text: string): string {
  return text.replace(UNSEEN, '').replace(FOREIGN_CONTROLS, ' ');
}

/**
 * Matches up to the last `@` of the word: a password may have `@`, `/` and `:` in it. The `@` of a
 * digest ends no login.
 */
const LOGIN = /(\w:\/\/)(?:[^\s"':/@]{0,128}:[^\s"']{0,512}|[^\s"'/]{1,512})@(?!sha\d+:)/g;

/** Removes names and passwords in addresses, for example of proxies and registries. */
export function withoutLogins(text: string): string {
  return text.includes('://') ? text.replaceAll(LOGIN, '$1<removed>@') : text;
}

/** No document has so many levels. */
const MAX_DEPTH = 64;

/** Names of members stay. Values below {@link MAX_DEPTH} levels become null. */
export function plainDocument<T>(document: T): T {
  return plainValue(document, MAX_DEPTH) as T;
}

/** Makes each run of blanks one blank, for errors of programs with several lines. */
export function oneLine(text: string): string {
  return plainText(text).replace(/\s+/gu, ' ').trim();
}

/** The length is in UTF-16 units. A cut text ends with `…`. Characters are not split. */
export function clip(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  return `${text.slice(0, maxLength - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}

/** A cut text ends with `…`: at a word, and not within a command or double quotes. */
export function cutAtWord(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const begin = clip(text, maxLength).slice(0, -1);
  const words = begin
    .replace(/\s?\S*$/, '')
    .replace(/^((?:[^"]|"[^"]*")*?)\s*"[^"]*$/, '$1')
    .replace(/[,;:]?(?: \w+)? '(?:stickpin|systemctl|journalctl|crio) [^']*$/, '');
  return `${(words || begin).replace(/[\s,;:.]+$/, '')}…`;
}

/** Nobody reads such names as words of a message. They also need no quotes in a shell. */
const PLAIN_NAME = /^[\p{L}\p{M}\p{N}._:@%+=,~-]*$/u;

/** Adds double quotes and removes others, so that nothing reads as a sentence of the message. */
export function quoted(text: string): string {
  return `"${plainText(text).replaceAll('"', "'")}"`;
}

/**
 * A path for a message, with double quotes around each name that could be read as words of the
 * message: who made a stick chose the names on it.
 */
export function quotedPath(path: string): string {
  return path
    .split('/')
    .map((name) => (PLAIN_NAME.test(name) ? name : quoted(name)))
    .join('/');
}

/** The text with a capital letter. */
export function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

/** Adds a full stop, unless the text already ends a sentence. */
export function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

function plainValue(value: unknown, levels: number): unknown {
  if (typeof value === 'string') return plainText(value);
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 0) return null;
  if (Array.isArray(value)) return value.map((one) => plainValue(one, levels - 1));
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plainValue(member, levels - 1)]));
}

/**
 * Decodes UTF-8 or UTF-16. If there is no byte order mark, the first character decides, as for
 * YAML: it is ASCII. `isStrict` throws a TypeError for other bytes.
 */
export function decodeText(bytes: Uint8Array, isStrict = false): string {
  const [first, second] = bytes;
  const isMark = (a: number, b: number) => first === a && second === b;
  const isLittle = isMark(0xff, 0xfe) || (first !== 0 && second === 0);
  const isBig = isMark(0xfe, 0xff) || (first === 0 && second !== 0 && second !== undefined);
  const encoding = isLittle ? 'utf-16le' : isBig ? 'utf-16be' : 'utf-8';
  return new TextDecoder(encoding, { fatal: isStrict }).decode(bytes);
}
