import type { BundleId } from '../model/digest.ts';
import { compareVersions, isInRange, type VersionScheme } from '../model/version.ts';

/** A release, as far as its place in the update graph depends on it. */
export interface PathRelease {
  readonly id: BundleId;
  readonly version: string;
  /** Unique within the stream. */
  readonly sequence: number;
  readonly from?: string;
  /** Milliseconds since the epoch. */
  readonly endOfLife?: number;
  /** It was rolled back on this node, or has the images of one that was. */
  readonly isDenied?: boolean;
  readonly isWithdrawn?: boolean;
  /** It came to the node after the activation of the present release. */
  readonly isLate?: boolean;
  /** It was activated on this node before: only a person's request chooses it again. */
  readonly wasActivated?: boolean;
}

export interface Position {
  readonly version: string;
  /** Absent where only its version is known. */
  readonly sequence?: number;
  /** Absent where no release of that version is known. */
  readonly id?: BundleId;
  /** It counts as passed: it has proven itself, or the settings name it. */
  readonly isProven: boolean;
  /** `running`: containers run only from it. `setting`: `streams.<name>.current`. */
  readonly source: 'activated' | 'running' | 'setting';
  /** The last activated version while containers run only from this one. */
  readonly activated?: string;
}

export interface StreamPath {
  readonly stream: string;
  readonly scheme: VersionScheme | undefined;
  /** Undefined: no activation is known, so no rule about edges applies. */
  readonly position: Position | undefined;
  /** Highest activated sequence, or 0. Only an allowed downgrade goes below it. */
  readonly floor: number;
  /** By sequence, each id once. */
  readonly releases: readonly PathRelease[];
  /** In force, by version. */
  readonly milestones: ReadonlyMap<string, Milestone>;
  readonly time: number;
  /** `[update]`. */
  readonly allowDowngrade: boolean;
  readonly allowEndOfLife: boolean;
}

type Block =
  /** `isUnreadable`: the range, or the version of the present release, does not fit the scheme. */
  | { readonly code: 'rule/from'; readonly from: string; readonly current: string; readonly isUnreadable: boolean }
  /** `trust`: the barrier is present, and not trusted now. */
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

/** Rule `from`. It does not apply to the release that runs already. */
export function fromBlock(path: StreamPath, { version, from }: PathRelease): BlockOf<'rule/from'> | undefined {
  const { position, scheme } = path;
  if (position === undefined || from === undefined || position.version === version) return undefined;
  const isInside = isInRange(position.version, from, scheme);
  if (isInside === true) return undefined;
  return { code: 'rule/from', from, current: position.version, isUnreadable: isInside === undefined };
}

/** The first barrier on the way. Releases before it lead no further than to it. */
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

export function holdsLater(path: StreamPath, version: string): 'barrier' | 'dead end' | undefined {
  const { position, milestones } = path;
  if (position === undefined) return undefined;
  if (deadEndAt(path, position) === version) return 'dead end';
  return milestones.get(version)?.isBarrier === true && isUnpassed(path, position, version) ? 'barrier' : undefined;
}

/** The last activated dead end counts before its containers run: its tags are in force. */
export function deadendBlock(path: StreamPath, { version }: PathRelease): BlockOf<'rule/deadend'> | undefined {
  const { position } = path;
  if (position === undefined || version === position.version || version === position.activated) return undefined;
  const current = deadEndAt(path, position);
  const milestone = current === undefined ? undefined : path.milestones.get(current);
  if (current === undefined || milestone === undefined) return undefined;
  const { reason, saidBy } = milestone;
  return { code: 'rule/deadend', current, reason, saidBy };
}

export function deadEndAt(
  { milestones }: Pick<StreamPath, 'milestones'>,
  { version, activated }: Position,
): string | undefined {
  return [activated, version].find((one) => one !== undefined && milestones.get(one)?.isDeadEnd === true);
}

/**
 * `update.allow_downgrade` allows releases that came after the present one: skipped ones stay
 * behind.
 */
export function downgradeBlock(path: StreamPath, release: PathRelease): BlockOf<'rule/downgrade'> | undefined {
  const { position, allowDowngrade } = path;
  if (position === undefined || !isDowngrade(path, release)) return undefined;
  if (allowDowngrade && release.isLate === true) return undefined;
  const by = isLowerVersion(path, position, release) ? 'version' : 'sequence';
  return { code: 'rule/downgrade', current: position.version, by };
}

/** None when no activation is known. Dead ends come last. */
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

/** Sequences decide where both are known; an absent barrier has its version only. */
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

/** Releases that were activated or rolled back are never chosen, so no chain is a loop. */
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

/** What a node goes through if each release proves itself and nothing else happens. */
export function routeOf(path: StreamPath): readonly PathRelease[] {
  const next = chooseNext(path);
  return next === undefined ? [] : [next, ...routeOf(arrivedAt(path, next))];
}

export function arrivedAt(path: StreamPath, { id, version, sequence }: PathRelease): StreamPath {
  const position: Position = { id, version, sequence, isProven: true, source: 'activated' };
  const releases = path.releases.map((release) => ({
    ...release,
    wasActivated: release.wasActivated === true || release.id === id,
    // Present releases are not newer than the next activation.
    isLate: false,
  }));
  return { ...path, position, releases, floor: Math.max(path.floor, sequence) };
}

export interface Milestone {
  readonly isBarrier: boolean;
  readonly isDeadEnd: boolean;
  readonly reason: string;
  /** `ocp@4.13.9`; the release itself where its own payload says so. */
  readonly saidBy: string;
}

const MAX_DRAWN = 30;

/** The newest 30 releases by sequence, and the lower versions that lead to each once proven. */
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
