/** What a text means: its colour on a terminal. `title`: a heading. */
export type Tone = 'good' | 'warning' | 'bad' | 'title';

/** Select Graphic Rendition (ECMA-48), in the eight colours that every terminal has. */
const CODES: Readonly<Record<Tone, string>> = { good: '32', warning: '33', bad: '1;31', title: '1' };

/** `text` in the colour of `tone`; unchanged without a tone or without colours. */
export function paint(text: string, tone: Tone | undefined, hasColour = false): string {
  return tone === undefined || !hasColour || text === '' ? text : `\u001b[${CODES[tone]}m${text}\u001b[0m`;
}

/** As {@link paint}, for a text of several lines: each line has its colour for itself. */
export function paintLines(text: string, tone: Tone | undefined, hasColour = false): string {
  if (tone === undefined || !hasColour) return text;
  return text
    .split('\n')
    .map((line) => paint(line, tone, hasColour))
    .join('\n');
}

/**
 * Whether a program that writes to a terminal may use colours: not when `NO_COLOR` has a value
 * (https://no-color.org), and not on a terminal that says it has none (`TERM=dumb`).
 */
export function wantsColour({ NO_COLOR, TERM }: Readonly<Record<string, string | undefined>>): boolean {
  return (NO_COLOR ?? '') === '' && TERM !== 'dumb';
}
