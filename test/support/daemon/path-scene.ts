import type { Milestone, PathRelease, Position, StreamPath } from '../../../src/domain/activation/stream-path.ts';
import type { BundleId } from '../../../src/domain/model/digest.ts';
import { digestOf } from '../../../src/platform/digest.ts';

/** What a test says of a path; everything has a default. */
export interface PathSpec {
  /** `1.2`, proven; `1.2?`, not proven; absent: unknown. */
  readonly at?: string;
  /** Releases, as {@link releaseOf} reads them, in the order of their sequences. */
  readonly has: readonly string[];
  readonly barriers?: readonly string[];
  readonly deadends?: readonly string[];
  readonly over?: Partial<StreamPath>;
}

/** The digest of the release of this version in a {@link pathOf}. */
const idOf = (version: string): BundleId => digestOf(`release ${version}`);

/**
 * The path of a stream `ocp`. Sequences are ten times the place in `has`. The present release is in
 * it without being named.
 */
export function pathOf({ at, has, barriers = [], deadends = [], over }: PathSpec): StreamPath {
  const releases = has.map((text, index) => releaseOf(text, 10 * (index + 1)));
  const milestone = (version: string): Milestone => ({
    isBarrier: barriers.includes(version),
    isDeadEnd: deadends.includes(version),
    reason: `because of ${version}`,
    saidBy: `ocp@${version}`,
  });
  const position = at === undefined ? undefined : positionOf(at, releases);
  return {
    stream: 'ocp',
    scheme: 'semver',
    position,
    floor: Math.max(
      position?.sequence ?? 0,
      ...releases.map(({ wasActivated, sequence }) => (wasActivated ? sequence : 0)),
    ),
    releases: releases.map((one) => (one.version === position?.version ? { ...one, wasActivated: true } : one)),
    milestones: new Map([...barriers, ...deadends].map((version) => [version, milestone(version)])),
    time: 1_000,
    allowDowngrade: false,
    allowEndOfLife: false,
    ...over,
  };
}

/**
 * `1.3.0`, with what follows a blank: `from=RANGE`, `end=TIME`, `seq=N`, `denied`, `was` (activated
 * before) and `late`. A `_` in a range is a blank.
 */
function releaseOf(text: string, sequence: number): PathRelease {
  const [version = '', ...words] = text.split(' ');
  const wordOf = (name: string) => words.find((word) => word.startsWith(`${name}=`))?.slice(name.length + 1);
  const [from, end, seq] = [wordOf('from'), wordOf('end'), wordOf('seq')];
  return {
    id: idOf(version),
    version,
    sequence: seq === undefined ? sequence : Number(seq),
    ...(from !== undefined && { from: from.replaceAll('_', ' ') }),
    ...(end !== undefined && { endOfLife: Number(end) }),
    isDenied: words.includes('denied'),
    wasActivated: words.includes('was'),
    isLate: words.includes('late'),
  };
}

function positionOf(at: string, releases: readonly PathRelease[]): Position {
  const version = at.replace('?', '');
  const known = releases.find((release) => release.version === version);
  return {
    version,
    isProven: !at.endsWith('?'),
    source: known === undefined ? 'setting' : 'activated',
    ...(known !== undefined && { id: known.id, sequence: known.sequence }),
  };
}
