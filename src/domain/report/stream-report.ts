import { defined } from '../../platform/defined.ts';
import type { PlannedPath } from '../activation/read-paths.ts';
import { deadEndAt, graphOf, type StreamPath } from '../activation/stream-path.ts';
import type { Assessment } from '../assess/assess.ts';
import { currentUnknownText } from './reasons/node-lines.ts';
import type { StreamRelease, StreamReport } from './status-schema.ts';

export function streamReports({ paths, next, bundles }: Assessment): readonly StreamReport[] {
  const phases = new Map(bundles.map(({ bundle, phase }) => [bundle.bundleId, phase]));
  return [...paths.values()]
    .sort((a, b) => (a.stream < b.stream ? -1 : 1))
    .map((path) => {
      const { stream, scheme, position } = path;
      return defined({
        name: stream,
        scheme,
        current: position && { version: position.version, source: position.source },
        next: next.get(stream)?.version,
        notes: streamNotes(path),
        releases: [
          ...graphOf(path).map(({ release: { id, version, sequence }, from }) => ({
            version,
            sequence,
            phase: phases.get(id) ?? 'arriving',
            from,
            ...milestoneOf(path, version),
          })),
          ...absentMilestones(path),
        ],
      });
    });
}

function milestoneOf({ milestones }: StreamPath, version: string): Pick<StreamRelease, 'barrier' | 'deadend'> {
  const { isBarrier = false, isDeadEnd = false, reason = '' } = milestones.get(version) ?? {};
  return { ...(isBarrier && { barrier: reason }), ...(isDeadEnd && { deadend: reason }) };
}

function absentMilestones(path: StreamPath): StreamRelease[] {
  const versions = new Set(path.releases.map(({ version }) => version));
  return [...path.milestones.keys()]
    .filter((version) => !versions.has(version))
    .map((version) => ({ version, phase: 'absent', from: [], ...milestoneOf(path, version) }));
}

/** Notes about an end of life begin this long before it. */
const END_WARNING_MS = 90 * 86_400_000;

/**
 * Notes that the present release is unknown although rules depend on it, is a dead end, or
 * approaches its end of life.
 */
export function streamNotes(path: PlannedPath): readonly string[] {
  const { stream, position, milestones, releases } = path;
  if (position === undefined) {
    const hasRules = milestones.size > 0 || releases.some(({ from }) => from !== undefined);
    if (!hasRules) return [];
    return [currentUnknownText(stream)];
  }
  const deadEnd = deadEndAt(path, position);
  const end = releases.find(({ id }) => id === position.id)?.endOfLife;
  return [
    ...(deadEnd === undefined
      ? []
      : [
          `${stream} ${deadEnd} is a dead end (${milestones.get(deadEnd)?.reason ?? ''}): no release follows it automatically.`,
        ]),
    ...(end === undefined ? [] : endNote(`${stream} ${position.version}`, end, path.time)),
  ];
}

function endNote(title: string, end: number, now: number): string[] {
  const date = new Date(end).toISOString().slice(0, 10);
  if (end <= now) return [`${title} has been past its end of life since ${date}.`];
  if (end - now > END_WARNING_MS) return [];
  const days = Math.ceil((end - now) / 86_400_000);
  return [`${title} reaches its end of life on ${date}, in ${days === 1 ? '1 day' : `${days} days`}.`];
}
