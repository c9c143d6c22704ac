/**
 * `text` in lines of at most `width` characters, broken at blanks only. A word that is wider has a
 * line of its own. Without `width` there is one line.
 */
export function wrapWords(text: string, width = Number.POSITIVE_INFINITY): string[] {
  const lines: string[] = [];
  let line = '';
  // Each word comes with the blanks before it, which stay unless the line is broken there.
  for (const [, blanks = '', word = ''] of text.trim().matchAll(/(\s*)(\S+)/g)) {
    if (line !== '' && line.length + blanks.length + word.length > width) {
      lines.push(line);
      line = word;
    } else {
      line = `${line}${blanks}${word}`;
    }
  }
  return [...lines, line];
}

/** Each line of `text` wrapped to `width`; what continues a line is indented by `indent` blanks. */
export function wrapLines(text: string, width: number | undefined, indent = 0): string {
  if (width === undefined) return text;
  return text
    .split('\n')
    .map((line) => (line.length <= width ? line : hanging(line, width, indent)))
    .join('\n');
}

function hanging(line: string, width: number, indent: number): string {
  const [, lead = ''] = /^(\s*)/.exec(line) ?? [];
  const [first = ''] = wrapWords(line, width - lead.length);
  const rest = line.slice(lead.length + first.length).trim();
  if (rest === '') return line;
  const blanks = ' '.repeat(lead.length + indent);
  const others = wrapWords(rest, width - blanks.length);
  return [`${lead}${first}`, ...others.map((text) => `${blanks}${text}`)].join('\n');
}
