import type { Phase } from '../model/condition.ts';
import { type BundleId, hexOf } from '../model/digest.ts';
import type { Reason } from '../model/reason.ts';
import { compareVersions, fitsScheme, schemeOf, type VersionScheme } from '../model/version.ts';
import { type FleetNode, type FleetView, isCut, type NodeStatus, type ReleaseStatus } from './node-status.ts';

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

/**
 * `before`: the first node that has to activate first. `absent`: silent nodes that are left out.
 */
export type Turn = (
  | { readonly kind: 'go' }
  | { readonly kind: 'rolled-back'; readonly node: AwaitedNode }
  | { readonly kind: 'not-ready'; readonly nodes: readonly [AwaitedNode, ...AwaitedNode[]] }
  | { readonly kind: 'before'; readonly node: AwaitedNode }
) & { readonly absent: readonly string[] };

const ACTIVATED: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven']);

/**
 * The order of an activation in a cluster: all nodes load the images; then they activate by name,
 * each after the one before it has activated and, where containers show it, runs the release. All
 * nodes compute the same order, so no lock is needed. After a rollback on any node, no other node
 * follows automatically.
 */
export function turnOf(release: TurnRelease, { self, nodes }: FleetView): Turn {
  const others = nodes.filter(({ name }) => name !== self).sort((a, b) => byName(a.name, b.name));
  const absent = others.filter(({ isAbsent }) => isAbsent).map(({ name }) => name);
  const awaited = others.filter((node) => isCounted(node, release)).flatMap((node) => awaitedNode(node, release) ?? []);
  const back = awaited.find((node) => node.release !== undefined && isBack(node.release));
  if (back !== undefined) return { kind: 'rolled-back', node: back, absent };
  const [lagging, ...more] = awaited.filter((node) => !isReady(node));
  if (lagging !== undefined) return { kind: 'not-ready', nodes: [lagging, ...more], absent };
  const before = awaited.find((node) => byName(node.name, self) < 0 && !isActivated(node));
  return before === undefined ? { kind: 'go', absent } : { kind: 'before', node: before, absent };
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
function hasGoneOn({ status }: FleetNode, release: TurnRelease): boolean {
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

function isActivated({ release }: AwaitedNode): boolean {
  return release !== undefined && ACTIVATED.has(release.phase) && isInForce(release) && release.runs !== false;
}

/** By code units, so that every node sorts alike. */
function byName(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

const ROLLED_BACK = 'engine/rolled-back' satisfies Reason['code'];

function isBack({ reason }: Pick<ReleaseStatus, 'reason'>): boolean {
  return reason === ROLLED_BACK;
}

/** Whether the tags of a release are in force and stay. The phase does not show a rollback. */
export function isInForce(release: Pick<ReleaseStatus, 'current' | 'reason'>): boolean {
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
