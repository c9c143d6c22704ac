import { blocksOn } from './edges.ts';
import type { PathRelease, Position, StreamPath } from './stream-path.ts';

/**
 * The release that a node goes to next: of all that it may go to, the one with the highest
 * sequence; undefined when there is none. What was activated here before, or rolled back, is never
 * chosen, so that no chain of choices comes back to where it was.
 */
export function chooseNext(path: StreamPath): PathRelease | undefined {
  return path.releases.filter((release) => isTarget(path, release)).at(-1);
}

/** Whether the node may go to a release by itself, as far as rules tell. */
export function isTarget(path: StreamPath, release: PathRelease): boolean {
  if (release.wasActivated === true || release.isDenied === true || release.isWithdrawn === true) return false;
  if (isPastEnd(path, release)) return false;
  if (release.sequence < path.floor && !(path.allowDowngrade && release.isLate === true)) return false;
  return blocksOn(path, release).length === 0;
}

/** Rule `endOfLife`: a release that is past it is not taken, unless `update.allow_end_of_life`. */
function isPastEnd({ allowEndOfLife, time }: StreamPath, { endOfLife }: PathRelease): boolean {
  return !allowEndOfLife && endOfLife !== undefined && endOfLife <= time;
}

/**
 * The releases that a node goes through one after the other, if each of them proves itself and
 * nothing else happens.
 */
export function routeOf(path: StreamPath): readonly PathRelease[] {
  const next = chooseNext(path);
  return next === undefined ? [] : [next, ...routeOf(arrivedAt(path, next))];
}

/** The path once a release was activated and has proven itself. */
export function arrivedAt(path: StreamPath, { id, version, sequence }: PathRelease): StreamPath {
  const position: Position = { id, version, sequence, isProven: true, source: 'activated' };
  const releases = path.releases.map((release) => ({
    ...release,
    wasActivated: release.wasActivated === true || release.id === id,
    // What is here now is no newer than the release that would be activated next.
    isLate: false,
  }));
  return { ...path, position, releases, floor: Math.max(path.floor, sequence) };
}
