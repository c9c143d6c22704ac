import { compareVersions, isInRange } from '../model/version/version-scheme.ts';
import type { PathRelease, Position, StreamPath } from './stream-path.ts';

/** Why there is no way from where the node is to a release: one rule that says so. */
export type Block =
  /** `isUnreadable`: the range, or the version of the present release, is none of the scheme. */
  | { readonly code: 'rule/from'; readonly from: string; readonly current: string; readonly isUnreadable: boolean }
  /** `lacks`: what has to happen to the barrier first. `trust`: it is here, and not trusted now. */
  | {
      readonly code: 'rule/barrier';
      readonly barrier: string;
      readonly reason: string;
      readonly lacks: 'bundle' | 'trust' | 'activation' | 'proof';
    }
  | { readonly code: 'rule/deadend'; readonly current: string; readonly reason: string; readonly saidBy: string }
  | { readonly code: 'rule/downgrade'; readonly current: string; readonly by: 'version' | 'sequence' };

/** A block by one rule. */
export type BlockOf<Code extends Block['code']> = Extract<Block, { readonly code: Code }>;

/** What a release's place in the graph is told from. */
type Place = Pick<PathRelease, 'version'> & { readonly sequence?: number };

/**
 * Rule `from`: the versions from which a release may be applied. It says nothing about the release
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
 * The first barrier that the node has to pass on its way to a release: one that lies between, or
 * the present release itself while it has not proven itself. Releases before a barrier lead no
 * further than to it.
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

/** What a release of this version is that holds later ones now; undefined when it holds none. */
export function holdsLater(path: StreamPath, version: string): 'barrier' | 'dead end' | undefined {
  const { position, milestones } = path;
  if (position === undefined) return undefined;
  if (deadEndAt(path, position) === version) return 'dead end';
  return milestones.get(version)?.isBarrier === true && isUnpassed(path, position, version) ? 'barrier' : undefined;
}

/**
 * No release updates from a dead end. One that was activated last holds others too before its
 * containers run: its tags hold, so the next container is of it, and from there no way leads on.
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
 * The version of the dead end at which a node is: the release that was activated last, or the one
 * from which containers still run.
 */
export function deadEndAt(
  { milestones }: Pick<StreamPath, 'milestones'>,
  { version, activated }: Position,
): string | undefined {
  return [activated, version].find((one) => one !== undefined && milestones.get(one)?.isDeadEnd === true);
}

/**
 * A release with a lower version or a lower sequence than the present one is a step back. With
 * `update.allow_downgrade` one is allowed to a release that came after the present one was
 * activated: what was passed over before stays behind.
 */
export function downgradeBlock(path: StreamPath, release: PathRelease): BlockOf<'rule/downgrade'> | undefined {
  const { position, allowDowngrade } = path;
  if (position === undefined || !isDowngrade(path, release)) return undefined;
  if (allowDowngrade && release.isLate === true) return undefined;
  const by = isLowerVersion(path, position, release) ? 'version' : 'sequence';
  return { code: 'rule/downgrade', current: position.version, by };
}

/**
 * All rules that speak against going from where the node is to a release; none when nothing is
 * known to be activated. Dead ends come last, as what they drop is what the others left.
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
 * Where a release lies beside a version: before it (negative) or behind it. Sequences decide where
 * both are known; a barrier that is not here has its version only.
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
