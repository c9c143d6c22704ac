import { type Sequenced, sequenceOf } from '../adoption/floors.ts';
import { type Advisory, bundleName, type Payload, type VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { schemeOf } from '../model/version.ts';
import { currentRelease, isProven, isRolledBack, isTwin, keptBundles } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import type { StoredBundle } from '../state/state.ts';
import { type Milestone, type PathRelease, type Position, routeOf, type StreamPath } from './stream-path.ts';

export interface PathsInput {
  readonly releases: readonly StoredBundle[];
  /** On plugged media and in the drop folder, about to be adopted. */
  readonly arriving: readonly VerifiedBundle[];
  /** All bundles whose advisories count, notices too. */
  readonly speakers: readonly Speaker[];
  /** Default none. */
  readonly withdrawn?: ReadonlySet<BundleId>;
  /** Releases that have running containers; undefined when containers were not listed. */
  readonly running: ReadonlySet<BundleId> | undefined;
  readonly policy: Pick<Policy, 'update' | 'streams'>;
  /** Wall clock, milliseconds since the epoch. */
  readonly now: number;
}

export interface PlannedPath extends StreamPath {
  /**
   * The releases that the node goes through once the present one has proven itself: see `routeOf`.
   */
  readonly route: readonly PathRelease[];
}

export type StreamPaths = ReadonlyMap<string, PlannedPath>;

export function readPaths(input: PathsInput): StreamPaths {
  const streams = new Set([...input.releases, ...input.arriving].map(({ payload }) => payload.name));
  return new Map([...streams].map((stream) => [stream, readPath(stream, input)]));
}

/** Of a stream with a release that {@link readPaths} was given. */
export function pathOf(paths: StreamPaths, stream: string): PlannedPath {
  const path = paths.get(stream);
  if (path === undefined) throw new TypeError(`no path was read of stream ${stream}`);
  return path;
}

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
    // The release that was activated last and does not run yet is still on its way.
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
 * with the very same images. A person's request lifts that.
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

interface PositionInput {
  readonly releases: readonly StoredBundle[];
  /** Undefined when containers were not listed. */
  readonly running: ReadonlySet<BundleId> | undefined;
  /** The setting `streams.<name>.current`. */
  readonly configured: string | undefined;
}

/**
 * The present release of a stream: the one that was activated last and not rolled back. While it
 * has not proven itself, and containers run from another activated release and none from it, that
 * other one is. Where nothing was activated, the one that the settings name; else it is unknown.
 */
export function positionOf({ releases, running, configured }: PositionInput): Position | undefined {
  const activated = releases.filter((release) => release.activatedAt !== undefined && !isRolledBack(release));
  const kept = keptBundles(activated);
  const candidates = byActivation(kept.length > 0 ? kept : activated);
  const last = candidates[0];
  if (last === undefined) return configured === undefined ? undefined : configuredPosition(releases, configured);
  const runs = ({ bundleId }: StoredBundle) => running?.has(bundleId) === true;
  const other = isProven(last) || runs(last) ? undefined : candidates.find(runs);
  if (other === undefined) return placeOf(last, 'activated');
  return { ...placeOf(other, 'running'), activated: last.payload.version };
}

function byActivation(releases: readonly StoredBundle[]): readonly StoredBundle[] {
  return [...releases].sort((a, b) => (b.activatedAt ?? 0) - (a.activatedAt ?? 0));
}

function placeOf(release: StoredBundle, source: Position['source']): Position {
  const { version } = release.payload;
  const sequence = sequenceOf(release);
  // A release that runs in place of a newer one was proven before, or nothing is known against it.
  return { id: release.bundleId, version, sequence, isProven: isProven(release), source };
}

function configuredPosition(releases: readonly StoredBundle[], version: string): Position {
  const known = releases.filter(({ payload }) => payload.version === version).at(-1);
  const position = { version, isProven: true, source: 'setting' } as const;
  return known === undefined ? position : { ...position, id: known.bundleId, sequence: sequenceOf(known) };
}

interface Speaker extends Sequenced {
  readonly payload: Pick<Payload, 'name' | 'version' | 'sequence' | 'advisories' | 'update'>;
}

/** What an advisory says about a release, and its bundle. */
export interface EffectiveAdvisory extends Advisory {
  /** `ocp@4.13.9` */
  readonly from: string;
}

/**
 * The advisories in force, by version (bundle format, `advisories`: "the newest sequence wins"). Of
 * all bundles with an advisory for a version, the one with the highest sequence counts. So a later
 * advisory without `deadend` or `barrier` ends an earlier one. Bundles from before a reset of the
 * stream do not count.
 *
 * @param bundles those that are trusted, in any order
 */
export function effectiveAdvisories(
  bundles: readonly Speaker[],
  stream: string,
): ReadonlyMap<string, EffectiveAdvisory> {
  return new Map(
    speakersOf(bundles, stream).flatMap((speaker) =>
      advisoriesIn(speaker).map((advisory) => [advisory.version, { ...advisory, from: bundleName(speaker.payload) }]),
    ),
  );
}

/**
 * The barriers and dead ends in force, by version: from releases themselves (`update.barrier`,
 * `update.deadend`) and from advisories. For each version the bundle with the highest sequence wins
 * as a whole: an advisory with `barrier` ends an earlier `deadend`. A release without these members
 * changes nothing.
 *
 * @param bundles those that are trusted, in any order
 */
export function milestonesOf(bundles: readonly Speaker[], stream: string): ReadonlyMap<string, Milestone> {
  const said = new Map<string, Milestone>();
  for (const speaker of speakersOf(bundles, stream)) {
    const { payload } = speaker;
    const { barrier, deadend } = payload.update ?? {};
    const saidBy = bundleName(payload);
    if (barrier !== undefined || deadend !== undefined) {
      const reason = [barrier?.reason, deadend?.reason].filter((one) => one !== undefined).join('; ');
      const isBoth = { isBarrier: barrier !== undefined, isDeadEnd: deadend !== undefined };
      said.set(payload.version, { ...isBoth, reason, saidBy });
    }
    for (const { version, barrier: isBarrier = false, deadend: isDeadEnd = false, reason } of advisoriesIn(speaker)) {
      said.set(version, { isBarrier, isDeadEnd, reason, saidBy });
    }
  }
  return new Map([...said].filter(([, { isBarrier, isDeadEnd }]) => isBarrier || isDeadEnd));
}

function speakersOf(bundles: readonly Speaker[], stream: string): Speaker[] {
  return bundles
    .filter(({ payload }) => payload.name === stream)
    .sort((a, b) => sequenceOf(a) - sequenceOf(b) || a.payload.sequence - b.payload.sequence);
}

/**
 * Advisories of a bundle that was known when its stream was reset no longer count: the reset gives
 * up what these bundles have settled for the stream.
 */
function advisoriesIn({ payload, resetAt }: Speaker): readonly Advisory[] {
  return resetAt === undefined ? (payload.advisories ?? []) : [];
}
