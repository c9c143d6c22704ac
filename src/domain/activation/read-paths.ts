import { defined } from '../../platform/defined.ts';
import { type Sequenced, sequenceOf } from '../adoption/floors.ts';
import { type Advisory, bundleName, type Payload, type VerifiedBundle } from '../model/bundle.ts';
import type { BundleId } from '../model/digest.ts';
import { schemeOf } from '../model/version.ts';
import { currentRelease, isProven, isRolledBack, isTwin, keptBundles } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import { ofStream, type StoredBundle } from '../state/state.ts';
import { type Milestone, type PathRelease, type Position, routeOf, type StreamPath } from './stream-path.ts';

export interface PathsInput {
  readonly releases: readonly StoredBundle[];
  /** These bundles on plugged media and in the drop folder are about to be adopted. */
  readonly arriving: readonly VerifiedBundle[];
  /** Advisories of all these bundles count, also those of notices. */
  readonly speakers: readonly Speaker[];
  readonly withdrawn?: ReadonlySet<BundleId>;
  readonly running: ReadonlySet<BundleId> | undefined;
  readonly policy: Pick<Policy, 'update' | 'streams'>;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

export interface PlannedPath extends StreamPath {
  /** The releases that follow the present one (see `routeOf`). */
  readonly route: readonly PathRelease[];
}

export type StreamPaths = ReadonlyMap<string, PlannedPath>;

export function readPaths(input: PathsInput): StreamPaths {
  const streams = new Set([...input.releases, ...input.arriving].map(({ payload }) => payload.name));
  return new Map([...streams].map((stream) => [stream, readPath(stream, input)]));
}

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
  const releases = ofStream(input.releases, stream);
  const known = new Set(releases.map(({ bundleId }) => bundleId));
  const arriving = ofStream(input.arriving, stream).filter(({ bundleId }) => !known.has(bundleId));
  const configured = policy.streams[stream]?.current;
  const position = positionOf(releases, input.running, configured);
  const path: StreamPath = {
    stream,
    scheme: schemeOf([...releases, ...arriving].map(({ payload }) => payload)),
    position,
    floor: Math.max(0, ...releases.flatMap((one) => (one.activatedAt === undefined ? [] : [sequenceOf(one)]))),
    releases: [
      ...storedReleases(releases, position, input.withdrawn),
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

function storedReleases(
  releases: readonly StoredBundle[],
  position: Position | undefined,
  withdrawn: ReadonlySet<BundleId> = new Set(),
): PathRelease[] {
  const since = releases.find(({ bundleId }) => bundleId === position?.id)?.activatedAt ?? 0;
  const rolledBack = Map.groupBy(releases.filter(isRolledBack), ({ payload }) => payload.version);
  return releases.map((release) => ({
    ...releaseOf(release),
    sequence: sequenceOf(release),
    isDenied: isDenied(release, rolledBack.get(release.payload.version) ?? []),
    isWithdrawn: withdrawn.has(release.bundleId),
    isLate: release.adoptedAt > since,
    // The last activated release counts as not activated while containers run only an earlier one.
    wasActivated: release.activatedAt !== undefined && !(position?.source === 'running' && isLast(release, releases)),
  }));
}

function isLast(release: StoredBundle, releases: readonly StoredBundle[]): boolean {
  return currentRelease(releases, release.payload.name) === release && !isRolledBack(release);
}

function releaseOf({ bundleId, payload }: VerifiedBundle): PathRelease {
  const { version, sequence, update } = payload;
  const endOfLife = update?.endOfLife === undefined ? undefined : Date.parse(update.endOfLife);
  return defined({ id: bundleId, version, sequence, from: update?.from, endOfLife });
}

/** Whether this release, or one with its version and images, was rolled back on this node. */
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

/**
 * The present release of a stream is the last activated one that was not rolled back. If that one
 * is unproven and containers run only from an earlier one, the earlier one is the present release.
 * Without an activation the settings name it.
 *
 * @param configured `streams.<name>.current`
 */
export function positionOf(
  releases: readonly StoredBundle[],
  running: ReadonlySet<BundleId> | undefined,
  configured: string | undefined,
): Position | undefined {
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
  // A release that runs in place of a newer one was proven before, or has no known fault.
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

export interface EffectiveAdvisory extends Advisory {
  readonly from: string;
}

/**
 * Returns the advisories in force, by version (bundle format, `advisories`). For each version the
 * bundle with the highest sequence counts, so a later advisory without `deadend` or `barrier` ends
 * an earlier one.
 *
 * @param bundles trusted bundles, in any order
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
 * Returns the barriers and dead ends in force, by version, from releases (`update.barrier`,
 * `update.deadend`) and advisories. For each version the bundle with the highest sequence counts as
 * a whole: an advisory with `barrier` ends an earlier `deadend`. A release without these members
 * changes nothing.
 *
 * @param bundles trusted bundles, in any order
 */
export function milestonesOf(bundles: readonly Speaker[], stream: string): ReadonlyMap<string, Milestone> {
  const milestones = new Map<string, Milestone>();
  for (const speaker of speakersOf(bundles, stream)) {
    const { payload } = speaker;
    const { barrier, deadend } = payload.update ?? {};
    const saidBy = bundleName(payload);
    if (barrier !== undefined || deadend !== undefined) {
      const reason = [barrier?.reason, deadend?.reason].filter((one) => one !== undefined).join('; ');
      const isBoth = { isBarrier: barrier !== undefined, isDeadEnd: deadend !== undefined };
      milestones.set(payload.version, { ...isBoth, reason, saidBy });
    }
    for (const { version, barrier: isBarrier = false, deadend: isDeadEnd = false, reason } of advisoriesIn(speaker)) {
      milestones.set(version, { isBarrier, isDeadEnd, reason, saidBy });
    }
  }
  return new Map([...milestones].filter(([, { isBarrier, isDeadEnd }]) => isBarrier || isDeadEnd));
}

function speakersOf(bundles: readonly Speaker[], stream: string): Speaker[] {
  return [...ofStream(bundles, stream)].sort(
    (a, b) => sequenceOf(a) - sequenceOf(b) || a.payload.sequence - b.payload.sequence,
  );
}

/** A reset of the stream cancels the advisories of all bundles before it. */
function advisoriesIn({ payload, resetAt }: Speaker): readonly Advisory[] {
  return resetAt === undefined ? (payload.advisories ?? []) : [];
}
