import { REMOVED } from './tokens.ts';

const NAME = '[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?';
const WHOLE = new RegExp(`-----BEGIN ${NAME}-----.*?-----END ${NAME}-----`, 'g');
const BEGIN = new RegExp(`-----BEGIN ${NAME}-----.*$`);
const END = new RegExp(`^.*-----END ${NAME}-----`);
/** What the lines of a key end with; a journal writes the time and the program in front. */
const LAST_WORD = /(?:^|[\s:"'])([A-Za-z0-9+/]+={0,2})["',]*$/;
const HEADER = /\b(?:Proc-Type|DEK-Info|Version|Comment): .*$|^[^a-z]*$/;
/** All lines of a key but the last have this length or more. */
const FULL_LINE = 64;

/**
 * The text without private keys in PEM, also of those whose first or last lines are missing, as
 * where a journal begins or ends. Then lines that may belong to the key are removed.
 */
export function withoutPrivateKeys(text: string): string {
  if (!text.includes('PRIVATE KEY')) return text;
  const kept: string[] = [];
  let place: Place = 'outside';
  for (const line of text.replaceAll(WHOLE, REMOVED).split('\n')) {
    if (END.test(line)) {
      if (place === 'outside') removeBack(kept);
      const rest = line.replace(END, place === 'outside' ? REMOVED : '');
      if (rest !== '') kept.push(rest);
      place = 'outside';
    } else if (place === 'inside' && isOfKey(line)) {
      // A key whose last line is missing ends with its first short line.
      if (isLast(line)) place = 'after';
    } else {
      place = BEGIN.test(line) ? 'inside' : 'outside';
      kept.push(line.replace(BEGIN, REMOVED));
    }
  }
  return kept.join('\n');
}

/** `after`: after a line that may be the last one of a key. */
type Place = 'outside' | 'inside' | 'after';

function isOfKey(line: string): boolean {
  return LAST_WORD.test(line) || HEADER.test(line);
}

function isLast(line: string): boolean {
  return (LAST_WORD.exec(line)?.[1]?.length ?? FULL_LINE) < FULL_LINE;
}

/** Removes the last lines that may belong to a key whose first line is missing. */
function removeBack(lines: string[]): void {
  if (isLast(lines.at(-1) ?? '')) lines.pop();
  while (lines.length > 0 && isOfKey(lines.at(-1) ?? '') && !isLast(lines.at(-1) ?? '')) lines.pop();
}
