import { type Cell, type Layout, tableRows } from './table.ts';
import { wrapLines } from './wrap-words.ts';

const INDENT = '    ';

/**
 * A table whose last columns are long texts. Where the terminal is too narrow to align all of it,
 * these stand below each row: each in lines of its own, with its title where there are several.
 *
 * @param below how many columns these are
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
