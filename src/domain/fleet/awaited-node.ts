import type { Phase } from '../model/condition.ts';
import { type BundleId, hexOf } from '../model/digest.ts';
import { compareVersions, fitsScheme, schemeOf, type VersionScheme } from '../model/version.ts';
import { type FleetNode, isCut, type NodeStatus, type ReleaseStatus } from './node-status.ts';

export interface TurnRelease {
  readonly bundleId: BundleId;
  readonly name: string;
  readonly version: string;
  /** GOARCH. */
  readonly arch: string;
  /** Undefined while its versions fit both. */
  readonly scheme: VersionScheme | undefined;
  /** The version that it replaces on this node; absent for the first of its stream. */
  readonly replaces?: string | undefined;
}

export interface AwaitedNode {
  readonly name: string;
  /** Absent when the node lacks the release, or that is not known. */
  readonly release?: ReleaseStatus;
  /** It has more releases than it reported. */
  readonly isUnknown?: true;
}

const ACTIVATED: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven']);

/** Its tags are in force, and where containers show it they run from it. */
export function isActivated(release: ReleaseStatus): boolean {
  return ACTIVATED.has(release.phase) && isInForce(release) && release.runs !== false && release.fails !== true;
}

/** Its activation is due or has begun, and has not ended. */
export function isMoving(release: ReleaseStatus): boolean {
  if (isBack(release)) return false;
  return release.begun === true || (release.current === true && (release.runs === false || release.fails === true));
}

export function isCounted(node: FleetNode, release: TurnRelease): boolean {
  return !node.isAbsent && !hasGoneOn(node, release);
}

export function isMadeFor({ status }: FleetNode, { arch }: TurnRelease): boolean {
  return status?.arch === undefined || status.arch === arch;
}

/**
 * After a downgrade versions show nothing: all nodes of the architecture have a later one before.
 */
export function hasGoneOn({ status }: FleetNode, release: TurnRelease): boolean {
  const { version, replaces, scheme } = release;
  const isDowngrade = replaces !== undefined && isLater(replaces, version, scheme);
  return !isDowngrade && isPast(status, release);
}

/** Undefined for a node of another architecture, which never loads the bundle. */
export function awaitedNode(node: FleetNode, wanted: TurnRelease): AwaitedNode | undefined {
  const { name, status } = node;
  const isOther = !isMadeFor(node, wanted);
  const id = hexOf(wanted.bundleId).slice(0, 16);
  const release = status?.releases.find((one) => (isOther ? isSameRelease(one, wanted) : one.bundle === id));
  if (release !== undefined) return { name, release };
  return isOther ? undefined : { name, ...(isCut(status) && { isUnknown: true }) };
}

/** Also for another architecture: both follow one order. */
function isSameRelease({ name, version, phase }: ReleaseStatus, wanted: TurnRelease): boolean {
  return name === wanted.name && version === wanted.version && phase !== 'retired' && phase !== 'rejected';
}

export function isReady({ release }: AwaitedNode): boolean {
  return release !== undefined && isLoaded(release);
}

export function isBack({ rolledBack }: ReleaseStatus): boolean {
  return rolledBack === true;
}

/** Whether the tags of a release are in force and stay. The phase does not show a rollback. */
export function isInForce(release: ReleaseStatus): boolean {
  return release.current === true && !isBack(release);
}

const LOADED: ReadonlySet<Phase> = new Set(['ready', 'activated', 'active', 'proven', 'superseded']);

/** Not `retired`: a release that never became complete is retired too. */
export function isLoaded({ phase, incomplete }: Pick<ReleaseStatus, 'phase' | 'incomplete'>): boolean {
  return LOADED.has(phase) && incomplete !== true;
}

interface StreamVersion {
  readonly name: string;
  readonly version: string;
  readonly scheme?: VersionScheme | undefined;
}

export function isPast(status: NodeStatus | undefined, { name, version, scheme }: StreamVersion): boolean {
  const current = status?.releases.find((one) => one.name === name && one.current === true);
  return current !== undefined && isLater(current.version, version, scheme);
}

/** False when unknown. */
function isLater(version: string, than: string, scheme: VersionScheme | undefined): boolean {
  const way = scheme ?? schemeOf([{ version }, { version: than }]) ?? 'semver';
  return fitsScheme(version, way) && fitsScheme(than, way) && compareVersions(version, than, way) > 0;
}
