import type { BundleId } from '../model/digest.ts';
import { compareVersions, isInRange, type VersionScheme } from '../model/version.ts';

/** The part of a release that decides its place in the update graph. */
export interface PathRelease {
  readonly id: BundleId;
  readonly version: string;
  /** Unique within the stream. */
  readonly sequence: number;
  readonly from?: string;
  /** Milliseconds since the epoch. */
  readonly endOfLife?: number;
  /** This release, or one with its images, was rolled back on this node. */
  readonly isDenied?: boolean;
  readonly isWithdrawn?: boolean;
  /** The release came to the node after the activation of the present one. */
  readonly isLate?: boolean;
  /** The release was activated on this node before. Only a person's request chooses it again. */
  readonly wasActivated?: boolean;
}

export interface Position {
  readonly version: string;
  /** Absent when only the version is known. */
  readonly sequence?: number;
  /** Absent when no release of that version is known. */
  readonly id?: BundleId;
  /** The release counts as passed: it has proven itself, or the settings name it. */
  readonly isProven: boolean;
  /** `running` means that containers run only from it. `setting` is `streams.<name>.current`. */
  readonly source: 'activated' | 'running' | 'setting';
  /** The last activated version, set while containers run only from this earlier one. */
  readonly activated?: string;
}

export interface StreamPath {
  readonly stream: string;
  readonly scheme: VersionScheme | undefined;
  /** Undefined when no activation is known. Then no rule about edges applies. */
  readonly position: Position | undefined;
  /** The highest activated sequence, or 0. Only an allowed downgrade goes below it. */
  readonly floor: number;
  /** Sorted by sequence, each id once. */
  readonly releases: readonly PathRelease[];
  /** The milestones in force, by version. */
  readonly milestones: ReadonlyMap<string, Milestone>;
  readonly time: number;
  /** Setting `update.allow_downgrade`. */
  readonly allowDowngrade: boolean;
  readonly allowEndOfLife: boolean;
}

type Block =
  /** `isUnreadable`: the range or the version of the present release does not fit the scheme. */
  | { readonly code: 'rule/from'; readonly from: string; readonly current: string; readonly isUnreadable: boolean }
  /** `trust` means that the barrier is present but not trusted now. */
  | {
      readonly code: 'rule/barrier';
      readonly barrier: string;
      readonly reason: string;
      readonly lacks: 'bundle' | 'trust' | 'activation' | 'proof';
    }
  | { readonly code: 'rule/deadend'; readonly current: string; readonly reason: string; readonly saidBy: string }
  | { readonly code: 'rule/downgrade'; readonly current: string; readonly by: 'version' | 'sequence' };

export type BlockOf<Code extends Block['code']> = Extract<Block, { readonly code: Code }>;

type Place = Pick<PathRelease, 'version'> & { readonly sequence?: number };

/** Rule `from` does not apply to the release that already runs. */
export function fromBlock(path: StreamPath, { version, from }: PathRelease): BlockOf<'rule/from'> | undefined {
  const { position, scheme } = path;
  if (position === undefined || from === undefined || position.version === version) return undefined;
  const isInside = isInRange(position.version, from, scheme);
  if (isInside === true) return undefined;
  return { code: 'rule/from', from, current: position.version, isUnreadable: isInside === undefined };
}

/** Returns the first barrier on the way. Earlier releases lead only to it. */
export function barrierBlock(path: StreamPath, release: PathRelease): BlockOf<'rule/barrier'> | undefined {
  const { position } = path;
  if (position === undefined || isDowngrade(path, release) || position.version === release.version) return undefined;
  const [first] = [...path.milestones]
    .filter(([barrier, { isBarrier }]) => isBarrier && isUnpassed(path, position, barrier))
    .filter(([barrier]) => barrier !== release.version && order(path, release, barrier) > 0)
    .sort(([a], [b]) => orderOfBarriers(path, a, b));
  if (first === undefined) return undefined;
  const [barrier, { reason }] = first;
  return { code: 'rule/barrier', barrier, reason, lacks: lackOf(path, position, barrier) };
}

function lackOf({ releases }: StreamPath, position: Position, barrier: string): BlockOf<'rule/barrier'>['lacks'] {
  if (barrier === position.version) return 'proof';
  const releasesThere = releases.filter(({ version }) => version === barrier);
  if (releasesThere.length === 0) return 'bundle';
  return releasesThere.every(({ isWithdrawn }) => isWithdrawn === true) ? 'trust' : 'activation';
}

export function holdsLater(path: StreamPath, version: string): 'barrier' | 'dead end' | undefined {
  const { position, milestones } = path;
  if (position === undefined) return undefined;
  if (deadEndAt(path, position) === version) return 'dead end';
  return milestones.get(version)?.isBarrier === true && isUnpassed(path, position, version) ? 'barrier' : undefined;
}

/** The last activated dead end counts before its containers run, since its tags are in force. */
export function deadendBlock(path: StreamPath, { version }: PathRelease): BlockOf<'rule/deadend'> | undefined {
  const { position } = path;
  if (position === undefined || version === position.version || version === position.activated) return undefined;
  const current = deadEndAt(path, position);
  const milestone = current === undefined ? undefined : path.milestones.get(current);
  if (current === undefined || milestone === undefined) return undefined;
  const { reason, saidBy } = milestone;
  return { code: 'rule/deadend', current, reason, saidBy };
}

export function deadEndAt({ milestones }: StreamPath, { version, activated }: Position): string | undefined {
  return [activated, version].find((one) => one !== undefined && milestones.get(one)?.isDeadEnd === true);
}

/**
 * `update.allow_downgrade` allows releases that came after the present one. Skipped ones stay
 * behind.
 */
export function downgradeBlock(path: StreamPath, release: PathRelease): BlockOf<'rule/downgrade'> | undefined {
  const { position, allowDowngrade } = path;
  if (position === undefined || !isDowngrade(path, release)) return undefined;
  if (allowDowngrade && release.isLate === true) return undefined;
  const by = isLowerVersion(path, position, release) ? 'version' : 'sequence';
  return { code: 'rule/downgrade', current: position.version, by };
}

/** Returns no blocks when no activation is known. Dead ends come last. */
export function blocksOn(path: StreamPath, release: PathRelease): readonly Block[] {
  return [fromBlock, barrierBlock, downgradeBlock, deadendBlock].flatMap((rule) => rule(path, release) ?? []);
}

function isDowngrade(path: StreamPath, release: PathRelease): boolean {
  const { position } = path;
  if (position === undefined || release.id === position.id) return false;
  return isLowerVersion(path, position, release) || release.sequence < (position.sequence ?? 0);
}

function isLowerVersion({ scheme }: StreamPath, position: Position, { version }: PathRelease): boolean {
  return compareVersions(version, position.version, scheme) < 0;
}

function isUnpassed(path: StreamPath, position: Position, barrier: string): boolean {
  return position.version === barrier ? !position.isProven : order(path, position, barrier) < 0;
}

/** Sequences decide where both are known. An absent barrier has only a version. */
function order(path: StreamPath, { version, sequence }: Place, other: string): number {
  const known = sequenceOf(path, other);
  if (version === other) return 0;
  if (sequence !== undefined && known !== undefined) return sequence - known;
  return compareVersions(version, other, path.scheme);
}

/** A version that was made more than once has the sequence of its first release. */
function sequenceOf({ releases }: StreamPath, version: string): number | undefined {
  return releases.find((release) => release.version === version)?.sequence;
}

function orderOfBarriers(path: StreamPath, a: string, b: string): number {
  const sequence = sequenceOf(path, a);
  return order(path, sequence === undefined ? { version: a } : { version: a, sequence }, b);
}

/** It never chooses a release that was activated or rolled back, so no chain is a loop. */
export function chooseNext(path: StreamPath): PathRelease | undefined {
  return path.releases.filter((release) => isTarget(path, release)).at(-1);
}

export function isTarget(path: StreamPath, release: PathRelease): boolean {
  if (release.wasActivated === true || release.isDenied === true || release.isWithdrawn === true) return false;
  if (isPastEnd(path, release)) return false;
  if (release.sequence < path.floor && !(path.allowDowngrade && release.isLate === true)) return false;
  return blocksOn(path, release).length === 0;
}

/** A release past its end needs `update.allow_end_of_life`. */
function isPastEnd({ allowEndOfLife, time }: StreamPath, { endOfLife }: PathRelease): boolean {
  return !allowEndOfLife && endOfLife !== undefined && endOfLife <= time;
}

/** Returns the releases that a node goes through if each one proves itself. */
export function routeOf(path: StreamPath): readonly PathRelease[] {
  const next = chooseNext(path);
  return next === undefined ? [] : [next, ...routeOf(arrivedAt(path, next))];
}

export function arrivedAt(path: StreamPath, { id, version, sequence }: PathRelease): StreamPath {
  const position: Position = { id, version, sequence, isProven: true, source: 'activated' };
  const releases = path.releases.map((release) => ({
    ...release,
    wasActivated: release.wasActivated === true || release.id === id,
    // A present release is not newer than the next activation.
    isLate: false,
  }));
  return { ...path, position, releases, floor: Math.max(path.floor, sequence) };
}

export interface Milestone {
  readonly isBarrier: boolean;
  readonly isDeadEnd: boolean;
  readonly reason: string;
  /** `ocp@4.13.9`, or the release itself when its own payload says it. */
  readonly saidBy: string;
}

const MAX_DRAWN = 30;

/** Shows the newest 30 releases by sequence, and lower versions that lead to each once proven. */
export function graphOf(path: StreamPath) {
  const drawn = path.releases.slice(-MAX_DRAWN);
  return drawn.map((release, index) => ({
    release,
    from: drawn.slice(0, index).flatMap((before) => (leadsTo(path, before, release) ? [before.version] : [])),
  }));
}

function leadsTo(path: StreamPath, { id, version, sequence }: PathRelease, release: PathRelease): boolean {
  const position = { id, version, sequence, isProven: true, source: 'activated' } as const;
  return version !== release.version && blocksOn({ ...path, position, allowDowngrade: false }, release).length === 0;
}
