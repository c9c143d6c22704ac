import type { StatusReport } from './status-schema.ts';

/** A console shows it to people far away, in plain ASCII, which every console font has. */
type Shown = Pick<StatusReport, 'advice' | 'operation' | 'progress'>;

/** A console has at least 80 columns. The last one stays free, so that no line is wrapped. */
const COLUMNS = 79;
/** Two rows of words, a bar, a code and the login prompt then fill a screen of 25 lines. */
const MAX_TEXT_LINES = 4;
/** Longer words would be cut. There are none. */
const MAX_LARGE_LINES = 3;

/** Each letter has five rows of up to five columns. */
const LETTERS: Readonly<Record<string, readonly string[]>> = lettersOf(`
  A .###. #...# ##### #...# #...#
  B ####. #...# ####. #...# ####.
  C .#### #.... #.... #.... .####
  D ####. #...# #...# #...# ####.
  E ##### #.... ####. #.... #####
  F ##### #.... ####. #.... #....
  G .#### #.... #..## #...# .####
  H #...# #...# ##### #...# #...#
  I ### .#. .#. .#. ###
  J ..### ...#. ...#. #..#. .##..
  K #...# #..#. ###.. #..#. #...#
  L #.... #.... #.... #.... #####
  M #...# ##.## #.#.# #...# #...#
  N #...# ##..# #.#.# #..## #...#
  O .###. #...# #...# #...# .###.
  P ####. #...# ####. #.... #....
  Q .###. #...# #.#.# #..#. .##.#
  R ####. #...# ####. #..#. #...#
  S .#### #.... .###. ....# ####.
  T ##### ..#.. ..#.. ..#.. ..#..
  U #...# #...# #...# #...# .###.
  V #...# #...# #...# .#.#. ..#..
  W #...# #...# #.#.# ##.## #...#
  X #...# .#.#. ..#.. .#.#. #...#
  Y #...# .#.#. ..#.. ..#.. ..#..
  Z ##### ...#. ..#.. .#... #####
`);
const ROWS = 5;
const BLANK = ['...', '...', '...', '...', '...'];

function lettersOf(drawn: string): Record<string, readonly string[]> {
  const lines = drawn
    .trim()
    .split('\n')
    .map((line) => line.trim().split(' '));
  return Object.fromEntries(lines.map(([letter = '', ...rows]) => [letter, rows]));
}

/**
 * Returns the words of the action in large letters, the text, the code and a bar. Lines have
 * printable ASCII without a backslash, which agetty(8) would read as the begin of a code.
 *
 * @param stepPercent the bar moves in such steps
 */
export function consoleText({ advice, operation, progress }: Shown, stepPercent = 1): string {
  const { words, code } = advice;
  const percent = operation === 'preloading' ? percentOf(progress, stepPercent) : undefined;
  const lines = [
    ...large(words),
    '',
    ...cut(wrapped(ascii(advice.atNode ?? advice.text))),
    ...(percent === undefined ? [] : ['', barOf(percent)]),
    ...(code === undefined ? [] : ['', `Code for the support: ${ascii(code)}`]),
  ];
  return lines.map((line) => `${line.trimEnd()}\n`).join('');
}

/** At most 99: images are stored after the last byte. Undefined while no transfer runs. */
function percentOf({ doneBytes, totalBytes }: StatusReport['progress'], stepPercent: number): number | undefined {
  if (totalBytes <= 0) return undefined;
  const percent = Math.min(99, (100 * doneBytes) / totalBytes);
  return Math.floor(percent / stepPercent) * stepPercent;
}

const BAR_COLUMNS = 60;

function barOf(percent: number): string {
  const full = Math.round((percent * BAR_COLUMNS) / 100);
  return `[${'#'.repeat(full)}${'.'.repeat(BAR_COLUMNS - full)}] ${percent} %`;
}

function large(words: string): string[] {
  const lines: string[] = [];
  for (const word of words.toUpperCase().split(' ')) {
    const longer = `${lines.at(-1) ?? ''} ${word}`.trim();
    if (lines.length > 0 && widthOf(longer) <= COLUMNS) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  const drawn = lines.slice(0, MAX_LARGE_LINES).map((line) => drawnLine(line).map((row) => row.slice(0, COLUMNS)));
  return drawn.flatMap((rows, at) => (at === 0 ? rows : ['', ...rows]));
}

function widthOf(line: string): number {
  return drawnLine(line)[0]?.length ?? 0;
}

function drawnLine(line: string): string[] {
  const letters = [...line].map((letter) => LETTERS[letter] ?? BLANK);
  return Array.from({ length: ROWS }, (_, row) =>
    letters
      .map((rows) => rows[row] ?? '')
      .join(' ')
      .replaceAll('.', ' '),
  );
}

/** Replaces a backslash by a slash, and every other non-ASCII character by a question mark. */
function ascii(text: string): string {
  return text
    .replaceAll('…', '...')
    .replaceAll('\\', '/')
    .replace(/[^\x20-\x7e]/gu, '?');
}

/** Words longer than a line are cut into lines. */
function wrapped(text: string): string[] {
  const words = text.split(' ').flatMap((word) => word.match(new RegExp(`.{1,${COLUMNS}}`, 'g')) ?? []);
  const lines: string[] = [];
  for (const word of words) {
    const longer = `${lines.at(-1) ?? ''} ${word}`.trim();
    if (lines.length > 0 && longer.length <= COLUMNS) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function cut(lines: readonly string[]): string[] {
  const kept = lines.slice(0, MAX_TEXT_LINES);
  if (lines.length > kept.length)
    kept[kept.length - 1] = `${`${kept.at(-1)} `.slice(0, COLUMNS - 3).replace(/\s\S*$/, '')} ...`;
  return kept;
}

/**
 * Changes when a console that scrolls must print again. Counts, rates and the bar within a step do
 * not count.
 */
export function consoleKey(shown: Shown, stepPercent: number): string {
  const { advice, operation, progress } = shown;
  const percent = operation === 'preloading' ? percentOf(progress, stepPercent) : undefined;
  return JSON.stringify([advice.words, advice.code, percent, percent === undefined ? advice.text : '']);
}
