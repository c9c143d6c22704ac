import { plainText } from '../../platform/plain-text.ts';
import { paint, type Tone } from './colour.ts';
import { type Layout, wrapLines, wrapWords } from './text.ts';

export type Cell = string | { readonly text: string; readonly tone: Tone | undefined };

const GAP = '  ';

/** Text columns are not made narrower than this. */
const MIN_TEXT_WIDTH = 16;

/** The same for columns whose cells have at most two words, as `activated (current)`. */
const MIN_PAIR_WIDTH = 9;

/**
 * A table with aligned columns and two spaces between them, each line ended by a newline.
 *
 * On a terminal it stays within its width: the widest cells are wrapped between words. A row whose
 * words are too wide for that is not aligned, continues on indented lines, and has the title of
 * each column before its cell. A word is never broken, so one that is wider than the terminal
 * sticks out.
 */
export function formatTable(
  header: readonly string[],
  rows: readonly (readonly Cell[])[],
  layout: Layout = {},
): string {
  return tableRows(header, rows, layout).texts.join('');
}

/** The titles and rows of {@link formatTable} as text, and whether all are aligned. */
function tableRows(
  header: readonly string[],
  rows: readonly (readonly Cell[])[],
  layout: Layout = {},
): { readonly texts: readonly string[]; readonly isAligned: boolean } {
  const lines = [header, ...rows].map((line) => header.map((_title, at) => cellOf(line[at] ?? '')));
  const { fitting, widths } = fittingLines(lines, layout.columns);
  const isTitle = (at: number) => at === 0 && header.some((title) => title !== '');
  const texts = lines.map((line, at) => {
    const painted = isTitle(at) ? line.map(({ text }) => ({ text, tone: 'title' as const })) : line;
    if (fitting.has(line)) return aligned(painted, widths, layout);
    return isTitle(at) ? '' : flowed(line, header, layout);
  });
  return { texts, isAligned: fitting.size === lines.length };
}

interface PlainCell {
  readonly text: string;
  readonly tone: Tone | undefined;
}

function cellOf(cell: Cell): PlainCell {
  return typeof cell === 'string'
    ? { text: plainText(cell), tone: undefined }
    : { text: plainText(cell.text), tone: cell.tone };
}

type Line = readonly PlainCell[];

/** The most lines that can be aligned within `columns`, and the width of each column. */
function fittingLines(
  lines: readonly Line[],
  columns: number | undefined,
): { readonly fitting: ReadonlySet<Line>; readonly widths: readonly number[] } {
  let fitting = lines;
  for (;;) {
    const widths = widthsWithin(fitting, columns);
    if (widths !== undefined) return { fitting: new Set(fitting), widths };
    const widest = fitting.reduce((one, other) => (leastWidth(other) > leastWidth(one) ? other : one));
    const narrower = fitting.filter((line) => leastWidth(line) < leastWidth(widest));
    // The titles alone are no table.
    if (narrower.length <= 1) return { fitting: new Set(), widths: [] };
    fitting = narrower;
  }
}

/** The least width of a line, with its words unbroken. */
function leastWidth(line: Line): number {
  return sum(line.map(({ text }) => longestWord(text)));
}

/** Returns undefined when the lines can't be aligned within `columns`. */
function widthsWithin(lines: readonly Line[], columns: number | undefined): readonly number[] | undefined {
  const natural = (lines[0] ?? []).map((_cell, at) => Math.max(...lines.map((line) => line[at]?.text.length ?? 0)));
  if (columns === undefined) return natural;
  const least = natural.map((width, at) => {
    const isPairs = lines.every((line) => (line[at]?.text ?? '').split(/\s+/).length <= 2);
    const narrowest = isPairs ? MIN_PAIR_WIDTH : MIN_TEXT_WIDTH;
    return Math.min(width, Math.max(narrowest, ...lines.map((line) => longestWord(line[at]?.text ?? ''))));
  });
  const widths = [...natural];
  const room = columns - GAP.length * (natural.length - 1);
  let over = sum(widths) - room;
  while (over > 0) {
    // The widest column that may become narrower gives way first.
    const at = widths.reduce((best, width, index) => {
      const canShrink = width > (least[index] ?? width);
      return canShrink && (best === -1 || width > (widths[best] ?? 0)) ? index : best;
    }, -1);
    if (at === -1) return undefined;
    widths[at] = (widths[at] ?? 0) - 1;
    over -= 1;
  }
  return widths;
}

function aligned(line: Line, widths: readonly number[], { hasColour = false }: Layout): string {
  const cells = line.map(({ text }, at) => (text.length <= (widths[at] ?? 0) ? [text] : wrapWords(text, widths[at])));
  const height = Math.max(1, ...cells.map((pieces) => pieces.length));
  return Array.from({ length: height }, (_none, row) => {
    const pieces = cells.map((all) => all[row] ?? '');
    const last = pieces.findLastIndex((piece) => piece !== '');
    const shown = pieces.slice(0, last + 1).map((piece, at) => {
      const blanks = at === last ? '' : ' '.repeat(Math.max(0, (widths[at] ?? 0) - piece.length));
      return `${paint(piece, line[at]?.tone, hasColour)}${blanks}`;
    });
    return `${shown.join(GAP).trimEnd()}\n`;
  }).join('');
}

/** One row as text. Text that does not fit continues with an indent of four columns. */
function flowed(
  line: Line,
  header: readonly string[],
  { columns = Number.POSITIVE_INFINITY, hasColour = false }: Layout,
): string {
  const lines: string[] = [];
  let width = 0;
  for (const [at, { text: cell, tone }] of line.entries()) {
    if (cell === '') continue;
    const title = at === 0 ? '' : (header[at] ?? '').toLowerCase();
    const text = title === '' ? cell : `${title} ${cell}`;
    const fits = width > 0 && width + GAP.length + text.length <= columns;
    if (fits) {
      lines.push(`${lines.pop()}${GAP}${paint(text, tone, hasColour)}`);
      width += GAP.length + text.length;
      continue;
    }
    const indent = lines.length === 0 ? '' : '    ';
    const pieces = wrapWords(text, columns - 4);
    for (const [at, piece] of pieces.entries()) {
      lines.push(`${at === 0 ? indent : '    '}${paint(piece, tone, hasColour)}`);
    }
    width = (lines.length > 1 ? 4 : 0) + (pieces.at(-1)?.length ?? 0);
  }
  return `${lines.join('\n')}\n`;
}

function longestWord(text: string): number {
  return Math.max(0, ...text.split(/\s+/).map((word) => word.length));
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

const INDENT = '    ';

/**
 * A table whose last columns are long texts. If the terminal is too narrow to align them, they go
 * below each row in separate lines, with their titles if there are several.
 * @param below the number of these columns
 */
export function formatStacked(
  header: readonly string[],
  rows: readonly (readonly Cell[])[],
  below: number,
  layout: Layout = {},
): string {
  const whole = tableRows(header, rows, layout);
  if (whole.isAligned) return whole.texts.join('');
  const beside = header.length - below;
  const { texts } = tableRows(
    header.slice(0, beside),
    rows.map((row) => row.slice(0, beside)),
    layout,
  );
  const [titles = '', ...heads] = texts;
  const blocks = rows.map((row, at) => {
    const lines = row.slice(beside).flatMap((cell, index) => {
      const text = typeof cell === 'string' ? cell : cell.text;
      const title = below === 1 ? '' : `${header[beside + index]?.toLowerCase()}: `;
      return text === '' ? [] : [`${INDENT}${title}${text}\n`];
    });
    return `${heads[at]}${wrapLines(lines.join(''), layout.columns, below === 1 ? 0 : 2)}`;
  });
  return `${titles}${blocks.join('')}`;
}

const BAR_WIDTH = 30;

/** A bar with fewer cells is left out. */
const MIN_BAR_WIDTH = 5;

/** `[##########....................] 34 %`. `share`: 0 to 1. */
function progressBar(share: number, width = BAR_WIDTH): string {
  const filled = Math.round(within(share) * width);
  return `[${'#'.repeat(filled)}${'.'.repeat(width - filled)}] ${percent(share)}`;
}

/**
 * If `columns` is small, the bar becomes shorter, then disappears. The text stays whole, since it
 * ends with the remaining time. Without `columns`, the bar has 30 cells.
 */
export function barWithText(share: number, text: string, columns?: number): string {
  if (columns === undefined) return `${progressBar(share)}  ${text}`;
  const width = Math.min(BAR_WIDTH, columns - `[] ${percent(share)}  ${text}`.length);
  return width < MIN_BAR_WIDTH ? text : `${progressBar(share, width)}  ${text}`;
}

function percent(share: number): string {
  return `${Math.floor(within(share) * 100)} %`;
}

function within(share: number): number {
  return Math.min(1, Math.max(0, share));
}
