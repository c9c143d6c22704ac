import type { BundleId } from '../model/digest.ts';
import { compareVersions, isInRange, type VersionScheme } from '../model/version.ts';

/** A release, as far as its place in the update graph depends on it. */
export interface PathRelease {
  readonly id: BundleId;
  readonly version: string;
  /** Orders the releases of a stream. No two have the same. */
  readonly sequence: number;
  /** Rule `from`. */
  readonly from?: string;
  /** Rule `endOfLife`, in milliseconds since the epoch. */
  readonly endOfLife?: number;
  /** It was rolled back on this node, or has the very images of one that was. */
  readonly isDenied?: boolean;
  /** It is not trusted now, so that it is not activated. */
  readonly isWithdrawn?: boolean;
  /** It came to the node after the activation of the present release. */
  readonly isLate?: boolean;
  /** It was activated on this node before: it is chosen only on a person's request. */
  readonly wasActivated?: boolean;
}

/** Where a node is in the update graph of a stream. */
export interface Position {
  readonly version: string;
  /** Absent where only its version is known. */
  readonly sequence?: number;
  /** Absent where no release of that version is known. */
  readonly id?: BundleId;
  /** It counts as passed: it has proven itself, or the settings say that it runs. */
  readonly isProven: boolean;
  /**
   * `activated`: it was activated last; `running`: containers run from it and not from the one that
   * was activated last; `setting`: `streams.<name>.current`.
   */
  readonly source: 'activated' | 'running' | 'setting';
  /**
   * The version of the release that was activated last, while containers run from this one and none
   * from it. Its tags are in force, so the next container may be of it.
   */
  readonly activated?: string;
}

/** `[update]`. */
interface PathPolicy {
  readonly allowDowngrade: boolean;
  readonly allowEndOfLife: boolean;
}

export interface StreamPath extends PathPolicy {
  readonly stream: string;
  /** Undefined while all versions fit both. */
  readonly scheme: VersionScheme | undefined;
  /** Undefined: no activation is known, so that no rule about edges applies. */
  readonly position: Position | undefined;
  /**
   * Highest activated sequence; 0 when there is none. Nothing below it is chosen, but a downgrade
   * that is allowed.
   */
  readonly floor: number;
  /** By sequence, each id once. */
  readonly releases: readonly PathRelease[];
  /** In force, by version. */
  readonly milestones: ReadonlyMap<string, Milestone>;
  /** The time for an end of life, in milliseconds since the epoch. */
  readonly time: number;
}

/** Why the node can't go to a release: one rule. */
type Block =
  /** `isUnreadable`: the range, or the version of the present release, is none of the scheme. */
  | { readonly code: 'rule/from'; readonly from: string; readonly current: string; readonly isUnreadable: boolean }
  /**
   * `lacks`: what has to happen to the barrier first. `trust`: it is present, and not trusted now.
   */
  | {
      readonly code: 'rule/barrier';
      readonly barrier: string;
      readonly reason: string;
      readonly lacks: 'bundle' | 'trust' | 'activation' | 'proof';
    }
  | { readonly code: 'rule/deadend'; readonly current: string; readonly reason: string; readonly saidBy: string }
  | { readonly code: 'rule/downgrade'; readonly current: string; readonly by: 'version' | 'sequence' };

export type BlockOf<Code extends Block['code']> = Extract<Block, { readonly code: Code }>;

/** What the place of a release follows from. */
type Place = Pick<PathRelease, 'version'> & { readonly sequence?: number };

/**
 * Rule `from`: the versions from which a release may be applied. It does not apply to the release
 * that runs already.
 */
export function fromBlock(path: StreamPath, { version, from }: PathRelease): BlockOf<'rule/from'> | undefined {
  const { position, scheme } = path;
  if (position === undefined || from === undefined || position.version === version) return undefined;
  const isInside = isInRange(position.version, from, scheme);
  if (isInside === true) return undefined;
  return { code: 'rule/from', from, current: position.version, isUnreadable: isInside === undefined };
}

/**
 * The first barrier that the node has to pass on its way to a release: one between, or the present
 * release itself while it has not proven itself. Releases before a barrier lead no further than to
 * it.
 */
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
  const here = releases.filter(({ version }) => version === barrier);
  if (here.length === 0) return 'bundle';
  return here.every(({ isWithdrawn }) => isWithdrawn === true) ? 'trust' : 'activation';
}

/** What a release of this version is, if it holds later ones now. */
export function holdsLater(path: StreamPath, version: string): 'barrier' | 'dead end' | undefined {
  const { position, milestones } = path;
  if (position === undefined) return undefined;
  if (deadEndAt(path, position) === version) return 'dead end';
  return milestones.get(version)?.isBarrier === true && isUnpassed(path, position, version) ? 'barrier' : undefined;
}

/**
 * No release updates from a dead end. One that was activated last holds others too before its
 * containers run: its tags are in force, so the next container is of it, and from it no way leads
 * on.
 */
export function deadendBlock(path: StreamPath, { version }: PathRelease): BlockOf<'rule/deadend'> | undefined {
  const { position } = path;
  if (position === undefined || version === position.version || version === position.activated) return undefined;
  const current = deadEndAt(path, position);
  const milestone = current === undefined ? undefined : path.milestones.get(current);
  if (current === undefined || milestone === undefined) return undefined;
  const { reason, saidBy } = milestone;
  return { code: 'rule/deadend', current, reason, saidBy };
}

/**
 * The version of the node's dead end: the release that was activated last, or the one from which
 * containers still run.
 */
export function deadEndAt(
  { milestones }: Pick<StreamPath, 'milestones'>,
  { version, activated }: Position,
): string | undefined {
  return [activated, version].find((one) => one !== undefined && milestones.get(one)?.isDeadEnd === true);
}

/**
 * A release with a lower version or a lower sequence than the present one is a step back. With
 * `update.allow_downgrade` one is allowed to a release that came after the activation of the
 * present one: what was passed over before stays behind.
 */
export function downgradeBlock(path: StreamPath, release: PathRelease): BlockOf<'rule/downgrade'> | undefined {
  const { position, allowDowngrade } = path;
  if (position === undefined || !isDowngrade(path, release)) return undefined;
  if (allowDowngrade && release.isLate === true) return undefined;
  const by = isLowerVersion(path, position, release) ? 'version' : 'sequence';
  return { code: 'rule/downgrade', current: position.version, by };
}

/**
 * All rules against going to a release; none when no activation is known. Dead ends come last, as
 * what they drop is what the others left.
 */
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

/**
 * Before a version (negative) or behind it. Sequences decide where both are known; an absent
 * barrier has its version only.
 */
function order(path: StreamPath, { version, sequence }: Place, other: string): number {
  const known = sequenceOf(path, other);
  if (version === other) return 0;
  if (sequence !== undefined && known !== undefined) return sequence - known;
  return compareVersions(version, other, path.scheme);
}

/** The first of several, where a version was made more than once. */
function sequenceOf({ releases }: StreamPath, version: string): number | undefined {
  return releases.find((release) => release.version === version)?.sequence;
}

function orderOfBarriers(path: StreamPath, a: string, b: string): number {
  const sequence = sequenceOf(path, a);
  return order(path, sequence === undefined ? { version: a } : { version: a, sequence }, b);
}

/**
 * Of all releases to which the node may go, the one with the highest sequence. What was activated
 * before, or rolled back, is never chosen, so that no chain of choices comes back to its start.
 */
export function chooseNext(path: StreamPath): PathRelease | undefined {
  return path.releases.filter((release) => isTarget(path, release)).at(-1);
}

/** Whether rules let the node go to a release automatically. */
export function isTarget(path: StreamPath, release: PathRelease): boolean {
  if (release.wasActivated === true || release.isDenied === true || release.isWithdrawn === true) return false;
  if (isPastEnd(path, release)) return false;
  if (release.sequence < path.floor && !(path.allowDowngrade && release.isLate === true)) return false;
  return blocksOn(path, release).length === 0;
}

/** Rule `endOfLife`: a release that is past it needs `update.allow_end_of_life`. */
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
    // What is present now is no newer than the release that would be activated next.
    isLate: false,
  }));
  return { ...path, position, releases, floor: Math.max(path.floor, sequence) };
}

/** A barrier or a dead end. */
export interface Milestone {
  readonly isBarrier: boolean;
  readonly isDeadEnd: boolean;
  readonly reason: string;
  /** `ocp@4.13.9`; the release itself where its own payload says so. */
  readonly saidBy: string;
}
