import { oneLine } from '../../../platform/plain-text.ts';
import type { StreamRelease, StreamReport } from '../stream-report.ts';

const MARGIN = '    ';

const SOURCES: Readonly<Record<NonNullable<StreamReport['current']>['source'], string>> = {
  activated: 'activated last',
  running: 'its containers run',
  setting: 'says the setting streams.NAME.current',
};

/**
 * The update graph of a stream as text: the releases by their order, the present one marked with
 * `*` and the next one with `>`; below each its barrier, its dead end, and the releases from which
 * it may be reached. Who prints it wraps its lines.
 */
export function graphText({ name, scheme, current, next, notes, releases }: StreamReport): string {
  const versions = scheme === undefined ? '' : ` (versions: ${scheme})`;
  const position =
    current === undefined ? 'unknown' : `${current.version}, ${SOURCES[current.source].replace('NAME', name)}`;
  const head = [
    oneLine(`Stream ${name}${versions}`),
    oneLine(`Present release: ${position}`),
    ...(next === undefined ? [] : [oneLine(`Next release: ${next}`)]),
  ];
  const nodes = releases.flatMap((release) => nodeLines(release, current?.version, next));
  return `${[...head, '', ...nodes, ...notes.flatMap((note) => ['', oneLine(note)])].join('\n')}\n`;
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
    `${mark} ${oneLine(`${version} (${what.join(', ')})`)}`,
    ...(barrier === undefined ? [] : [`${MARGIN}${oneLine(`barrier: ${barrier}`)}`]),
    ...(deadend === undefined ? [] : [`${MARGIN}${oneLine(`dead end: ${deadend}`)}`]),
    ...(from.length === 0 ? [] : [`${MARGIN}${oneLine(`<- ${from.join(', ')}`)}`]),
  ];
}
