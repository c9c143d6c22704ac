/** A table in Markdown, as docs/performance.md has them, so that its rows can be pasted there. */
export function markdownTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |\n`;
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('');
}
