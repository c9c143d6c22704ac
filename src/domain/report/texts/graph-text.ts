import { oneLine } from '../../../platform/plain-text.ts';
import type { StreamRelease, StreamReport } from '../stream-report.ts';

/** Longest line. */
const WIDTH = 80;
const MARGIN = '    ';

const SOURCES: Readonly<Record<NonNullable<StreamReport['current']>['source'], string>> = {
  activated: 'activated last',
  running: 'its containers run',
  setting: 'says the setting streams.NAME.current',
};

/**
 * The update graph of a stream as text, at most 80 columns wide: the releases by their order, the
 * present one marked with `*` and the next one with `>`; below each its barrier, its dead end, and
 * the releases from which it may be reached.
 */
export function graphText({ name, scheme, current, next, notes, releases }: StreamReport): string {
  const versions = scheme === undefined ? '' : ` (versions: ${scheme})`;
  const position =
    current === undefined ? 'unknown' : `${current.version}, ${SOURCES[current.source].replace('NAME', name)}`;
  const head = [
    ...wrapped(`Stream ${name}${versions}`, ''),
    ...wrapped(`Present release: ${position}`, ''),
    ...(next === undefined ? [] : wrapped(`Next release: ${next}`, '')),
  ];
  const nodes = releases.flatMap((release) => nodeLines(release, current?.version, next));
  return `${[...head, '', ...nodes, ...notes.flatMap((note) => ['', ...wrapped(note, '')])].join('\n')}\n`;
}

function nodeLines(release: StreamRelease, current: string | undefined, next: string | undefined): string[] {
  const { version, sequence, phase, from, barrier, deadend } = release;
  const mark = version === current ? '*' : version === next ? '>' : ' ';
  const what = [
    ...(sequence === undefined ? [] : [`sequence ${sequence}`]),
    phase === 'absent' ? 'not here' : phase,
    ...(version === current ? ['present'] : []),
    ...(version === next ? ['next'] : []),
  ];
  return [
    ...wrapped(`${version} (${what.join(', ')})`, `${mark} `),
    ...(barrier === undefined ? [] : wrapped(`barrier: ${barrier}`, MARGIN)),
    ...(deadend === undefined ? [] : wrapped(`dead end: ${deadend}`, MARGIN)),
    ...(from.length === 0 ? [] : wrapped(`<- ${from.join(', ')}`, MARGIN)),
  ];
}

/**
 * Breaks between words; a longer word is broken too. `margin`: of the first line; blanks in others.
 */
function wrapped(text: string, margin: string): string[] {
  const width = WIDTH - margin.length;
  const lines: string[] = [];
  let line = '';
  for (const word of oneLine(text).split(/(?<= )/)) {
    if (line !== '' && (line + word).trimEnd().length > width) {
      lines.push(line.trimEnd());
      line = margin === '' ? '' : '  ';
    }
    line += word;
    while (line.length > width && line.trimEnd().length > width) {
      lines.push(line.slice(0, width));
      line = line.slice(width);
    }
  }
  return [...lines, line.trimEnd()]
    .filter((one) => one !== '')
    .map((one, index) => `${index === 0 ? margin : ' '.repeat(margin.length)}${one}`);
}
