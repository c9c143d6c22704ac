import { sequenceOf } from '../adoption/floors.ts';
import type { VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { schemeOf } from '../model/version/version-scheme.ts';
import { currentRelease, isRolledBack, isTwin } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import type { StoredBundle } from '../state/state.ts';
import { routeOf } from './choose.ts';
import { milestonesOf, type Speaker } from './milestones.ts';
import { positionOf } from './position.ts';
import type { PathRelease, Position, StreamPath } from './stream-path.ts';

/** What the paths of all streams are read from. */
export interface PathsInput {
  /** Adopted releases. */
  readonly releases: readonly StoredBundle[];
  /** Releases on plugged media and in the drop folder that are about to be adopted. */
  readonly arriving: readonly VerifiedBundle[];
  /** All bundles whose word counts, notices too. */
  readonly speakers: readonly Speaker[];
  /** Adopted bundles that are not trusted now. Default none. */
  readonly withdrawn?: ReadonlySet<BundleId>;
  /** Releases that have running containers; undefined when nobody looked. */
  readonly running: ReadonlySet<BundleId> | undefined;
  readonly policy: Pick<Policy, 'update' | 'streams'>;
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
}

/** The path of a stream, and what follows from it. */
export interface PlannedPath extends StreamPath {
  /**
   * The releases that the node goes through one after the other once the present one has proven
   * itself: see `routeOf`.
   */
  readonly route: readonly PathRelease[];
}

/** The paths of all streams, by name. */
export type StreamPaths = ReadonlyMap<string, PlannedPath>;

/** Reads the path of each stream of which a release is known. */
export function readPaths(input: PathsInput): StreamPaths {
  const streams = new Set([...input.releases, ...input.arriving].map(({ payload }) => payload.name));
  return new Map([...streams].map((stream) => [stream, readPath(stream, input)]));
}

/** The path of the stream of a release that {@link readPaths} was given. */
export function pathOf(paths: StreamPaths, stream: string): PlannedPath {
  const path = paths.get(stream);
  if (path === undefined) throw new TypeError(`no path was read of stream ${stream}`);
  return path;
}

/** The place of a release in the path of its stream. */
export function placeIn(path: StreamPath, bundle: StoredBundle): PathRelease {
  return path.releases.find(({ id }) => id === bundle.bundleId) ?? releaseOf(bundle);
}

function readPath(stream: string, input: PathsInput): PlannedPath {
  const { policy } = input;
  const releases = input.releases.filter(({ payload }) => payload.name === stream);
  const arriving = input.arriving.filter(
    ({ bundleId, payload }) => payload.name === stream && releases.every((known) => known.bundleId !== bundleId),
  );
  const configured = policy.streams[stream]?.current;
  const position = positionOf({ releases, running: input.running, configured });
  const path: StreamPath = {
    stream,
    scheme: schemeOf([...releases, ...arriving].map(({ payload }) => payload)),
    position,
    floor: Math.max(0, ...releases.flatMap((one) => (one.activatedAt === undefined ? [] : [sequenceOf(one)]))),
    releases: [
      ...releases.map((release) => storedRelease(release, releases, position, input.withdrawn)),
      ...arriving.map((bundle) => ({ ...releaseOf(bundle), isLate: true })),
    ].sort((a, b) => a.sequence - b.sequence),
    milestones: milestonesOf(input.speakers, stream),
    time: input.now,
    allowDowngrade: policy.update.allow_downgrade,
    allowEndOfLife: policy.update.allow_end_of_life,
  };
  const proven = position && { ...position, isProven: true };
  return { ...path, route: routeOf({ ...path, position: proven }) };
}

function storedRelease(
  release: StoredBundle,
  releases: readonly StoredBundle[],
  position: Position | undefined,
  withdrawn: ReadonlySet<BundleId> = new Set(),
): PathRelease {
  const since = releases.find(({ bundleId }) => bundleId === position?.id)?.activatedAt ?? 0;
  return {
    ...releaseOf(release),
    sequence: sequenceOf(release),
    isDenied: isDenied(release, releases),
    isWithdrawn: withdrawn.has(release.bundleId),
    isLate: release.adoptedAt > since,
    // What was activated last and does not run yet is still on its way there.
    wasActivated: release.activatedAt !== undefined && !(position?.source === 'running' && isLast(release, releases)),
  };
}

function isLast(release: StoredBundle, releases: readonly StoredBundle[]): boolean {
  return currentRelease(releases, release.payload.name) === release && !isRolledBack(release);
}

function releaseOf({ bundleId, payload }: VerifiedBundle): PathRelease {
  const { version, sequence, update } = payload;
  return {
    id: bundleId,
    version,
    sequence,
    ...(update?.from !== undefined && { from: update.from }),
    ...(update?.endOfLife !== undefined && { endOfLife: Date.parse(update.endOfLife) }),
  };
}

/**
 * Whether a release was rolled back on this node, or is such a one made again: the same version
 * with the very same images. A person who asks for it lifts that, and a newer release is not it.
 */
export function isDenied(release: StoredBundle, releases: readonly StoredBundle[]): boolean {
  const { activationRequestedAt = 0, payload } = release;
  return releases.some(
    (other) =>
      isRolledBack(other) &&
      activationRequestedAt <= (other.rolledBackAt ?? 0) &&
      (other.bundleId === release.bundleId ||
        (other.payload.name === payload.name && other.payload.version === payload.version && isTwin(other, release))),
  );
}
