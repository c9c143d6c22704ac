import { defined } from '../../platform/defined.ts';
import type { Phase } from '../model/condition.ts';
import { type BundleId, hexOf } from '../model/digest.ts';
import type { Reason } from '../model/reason.ts';
import { compareVersions, fitsScheme, schemeOf, type VersionScheme } from '../model/version.ts';
import {
  type FleetNode,
  type FleetView,
  isCut,
  type NodeStatus,
  type ReleaseStatus,
  type Search,
} from './node-status.ts';

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

export interface LoadingNodes {
  readonly loading: number;
  readonly all: number;
}

/**
 * The nodes that need the stick in this node. Undefined when all others have its images, are
 * absent, went on to a later release, rejected it or gave it up, or another node gives it.
 *
 * @param isLong the release has been offered for `fleet.absent`: nodes that have not begun by then
 *   do not count
 */
export function nodesLoading(
  release: TurnRelease,
  { self, nodes, peers }: FleetView,
  isLong: boolean,
): LoadingNodes | undefined {
  const others = nodes.filter(
    (node) => node.name !== self && isCounted(node, release) && isMadeFor(node, release) && !hasRejected(node, release),
  );
  const wantsIt = new Set(
    others.flatMap(({ name, status }) =>
      status?.wants?.some((one) => one.name === release.name && one.version === release.version) ? [name] : [],
    ),
  );
  const loading = others
    .flatMap((node) => awaitedNode(node, release) ?? [])
    .filter((node) => isStillLoading(node) && (node.release !== undefined || !isLong || wantsIt.has(node.name)));
  const isGiven = peers.some(
    ({ trouble, bundles }) =>
      trouble === undefined && bundles.some(({ bundleId, isWhole }) => bundleId === release.bundleId && isWhole),
  );
  return loading.length === 0 || isGiven ? undefined : { loading: loading.length, all: others.length + 1 };
}

/** A release that a cut report does not name may be loading. */
function isStillLoading(node: AwaitedNode): boolean {
  if (node.isUnknown === true) return false;
  const { phase, reason } = node.release ?? {};
  const hasGivenUp = phase === 'retired' || phase === 'rejected' || reason === 'engine/cancelled';
  return !isReady(node) && !hasGivenUp;
}

function hasRejected({ status }: FleetNode, { bundleId }: TurnRelease): boolean {
  return status?.rejects?.includes(hexOf(bundleId).slice(0, 16)) === true;
}

function isCounted(node: FleetNode, release: TurnRelease): boolean {
  return !node.isAbsent && !hasGoneOn(node, release);
}

function isMadeFor({ status }: FleetNode, { arch }: TurnRelease): boolean {
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
function awaitedNode(node: FleetNode, wanted: TurnRelease): AwaitedNode | undefined {
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

function isReady({ release }: AwaitedNode): boolean {
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
function isInForce(release: Pick<ReleaseStatus, 'current' | 'reason'>): boolean {
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

function isPast(status: NodeStatus | undefined, { name, version, scheme }: StreamVersion): boolean {
  const current = status?.releases.find((one) => one.name === name && one.current === true);
  return current !== undefined && isLater(current.version, version, scheme);
}

/** False when unknown. */
function isLater(version: string, than: string, scheme: VersionScheme | undefined): boolean {
  const way = scheme ?? schemeOf([{ version }, { version: than }]) ?? 'semver';
  return fitsScheme(version, way) && fitsScheme(than, way) && compareVersions(version, than, way) > 0;
}

/** The API server and peers answer within this time, or they are away. */
export const NEW_SEARCH_MS = 60_000;

/** @param searchedMs the time since the start, by the monotonic clock */
export function searchOf(searchedMs: number, absentMs: number): Search {
  if (searchedMs >= absentMs) return 'long';
  return searchedMs >= NEW_SEARCH_MS ? 'short' : 'new';
}

export interface WantedRelease {
  readonly name: string;
  readonly version: string;
  readonly nodes: readonly string[];
}

interface LocalRelease {
  readonly bundleId: Parameters<typeof hexOf>[0];
  readonly payload: { readonly name: string; readonly version: string };
}

/** Releases of other nodes of this architecture that are newer than all here, and on no peer. */
export function wantedReleases(view: FleetView | undefined, known: readonly LocalRelease[]): readonly WantedRelease[] {
  if (view === undefined) return [];
  const wanted = new Map<string, WantedRelease>();
  const arch = view.nodes.find(({ name }) => name === view.self)?.status?.arch;
  for (const { name: node, status } of view.nodes) {
    const isOther = node === view.self || (status?.arch ?? arch) !== (arch ?? status?.arch);
    for (const release of isOther ? [] : (status?.releases ?? [])) {
      const { name, version, bundle, current } = release;
      if (current !== true && !isReadyOn(view, node, release)) continue;
      if (isKnown(known, name, version, bundle) || isOffered(view, bundle)) continue;
      const before = wanted.get(name);
      const order = before === undefined ? 1 : compareVersions(version, before.version);
      if (order > 0) wanted.set(name, { name, version, nodes: [node] });
      else if (before !== undefined && order === 0) wanted.set(name, { ...before, nodes: [...before.nodes, node] });
    }
  }
  return [...wanted.values()];
}

/** Whether it is ready on a node that answers. A silent node may have its stick. */
function isReadyOn({ peers }: FleetView, node: string, release: ReleaseStatus): boolean {
  const answers = peers.some(({ name, trouble }) => name === node && trouble === undefined);
  return release.phase === 'ready' && isLoaded(release) && answers;
}

/** @param bundle the first hex digits of its id */
function isKnown(known: readonly LocalRelease[], name: string, version: string, bundle: string): boolean {
  return known.some(
    ({ bundleId, payload }) =>
      hexOf(bundleId).startsWith(bundle) || (payload.name === name && compareVersions(payload.version, version) >= 0),
  );
}

function isOffered({ peers }: FleetView, bundle: string): boolean {
  return peers.some(({ bundles }) => bundles.some(({ bundleId }) => hexOf(bundleId).startsWith(bundle)));
}

export const WAIT_GOALS = ['ready', 'activated', 'active', 'proven'] as const;

export type WaitGoal = (typeof WAIT_GOALS)[number];

/** Phases that reach a goal. The label of a release says whether it is ready. */
const REACHED: Readonly<Record<Exclude<WaitGoal, 'ready'>, ReadonlySet<Phase>>> = {
  activated: new Set(['activated', 'active', 'proven', 'superseded']),
  active: new Set(['active', 'proven', 'superseded']),
  proven: new Set(['proven', 'superseded']),
};

/** `release`: absent when the node lacks it. */
export interface LaggingNode {
  readonly node: FleetNode;
  readonly release?: ReleaseStatus;
}

export function laggingNodes(
  nodes: readonly FleetNode[],
  wanted: { readonly name: string; readonly version: string },
  goal: WaitGoal,
): readonly LaggingNode[] {
  return nodes.flatMap((node) => {
    const all = node.status?.releases ?? [];
    const releases = all.filter(({ name, version }) => name === wanted.name && version === wanted.version);
    const hasGoneOn = isPast(node.status, wanted);
    if (releases.some((release) => hasReached(release, goal, hasGoneOn))) return [];
    const release = releases.find(({ phase }) => phase !== 'retired') ?? releases[0];
    return [defined({ node, release })];
  });
}

/** Whether unknown nodes may exist: no other node is known, and the API does not answer. */
export function mayHaveOthers({ self, nodes, apiTrouble }: Pick<FleetView, 'self' | 'nodes' | 'apiTrouble'>): boolean {
  return nodes.length === 0 || (apiTrouble !== undefined && nodes.every(({ name }) => name === self));
}

/** @param hasGoneOn the node has a later release of the stream in force */
function hasReached(release: ReleaseStatus, goal: WaitGoal, hasGoneOn: boolean): boolean {
  if (goal === 'ready') return isLoaded(release);
  return REACHED[goal].has(release.phase) && (hasGoneOn || isInForce(release));
}
