import { defined } from '../../platform/defined.ts';
import type { Phase } from '../model/condition.ts';
import { hexOf } from '../model/digest.ts';
import type { Reason } from '../model/reason.ts';
import { compareVersions } from '../model/version.ts';
import {
  type AwaitedNode,
  awaitedNode,
  isCounted,
  isInForce,
  isLoaded,
  isMadeFor,
  isPast,
  isReady,
  type TurnRelease,
} from './awaited-node.ts';
import type { FleetKeys, FleetNode, FleetView, ReleaseStatus, Search } from './node-status.ts';

export interface LoadingNodes {
  readonly loading: number;
  readonly all: number;
}

/**
 * The nodes that need the stick in this node. Undefined when all others have its images, are
 * absent, went on to a later release, rejected it or gave it up, or a node gives it that comes
 * before this one by name: of several sticks one stays.
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
  // A peer without a Node is named by its address, which nobody else compares.
  const before = new Set(nodes.flatMap(({ name }) => (name < self ? [name] : [])));
  const isGiven = peers.some(
    ({ name, trouble, bundles }) =>
      before.has(name) &&
      trouble === undefined &&
      bundles.some(({ bundleId, isWhole }) => bundleId === release.bundleId && isWhole),
  );
  return loading.length === 0 || isGiven ? undefined : { loading: loading.length, all: others.length + 1 };
}

export interface Partition {
  readonly nodes: readonly string[];
  /** Milliseconds since the epoch. */
  readonly since: number;
}

/**
 * All other nodes that are known, where none of them has answered for a minute: this node may be
 * cut off, or they may be switched off.
 */
export function partitionOf({ peers }: FleetView): Partition | undefined {
  const others = peers.filter(({ leftOut }) => leftOut === undefined);
  const times = others.flatMap(({ since }) => since ?? []);
  if (times.length === 0 || times.length < others.length) return undefined;
  return { nodes: others.map(({ name }) => name), since: Math.max(...times) };
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
  /** The only nodes that offer it don't answer: why not, and how much of it is loaded. */
  readonly unreached?: { readonly why: string; readonly percent: number };
}

interface LocalRelease {
  readonly bundleId: Parameters<typeof hexOf>[0];
  readonly payload: { readonly name: string; readonly version: string };
}

/**
 * Releases of other nodes of this architecture that are newer than all here, and on no peer. One
 * node may be mistaken or lie, so another one must name the same bundle, if there is another.
 */
export function wantedReleases(view: FleetView | undefined, known: readonly LocalRelease[]): readonly WantedRelease[] {
  if (view === undefined) return [];
  const arch = view.nodes.find(({ name }) => name === view.self)?.status?.arch;
  const others = view.nodes.filter(
    ({ name, status }) => name !== view.self && status !== undefined && (status.arch ?? arch) === (arch ?? status.arch),
  );
  const claims = new Map<string, WantedRelease>();
  for (const { name: node, status } of others) {
    for (const release of status?.releases ?? []) {
      const { name, version, bundle, current } = release;
      if (current !== true && !isReadyOn(view, node, release)) continue;
      if (isKnown(known, name, version, bundle) || isOffered(view, bundle)) continue;
      const key = JSON.stringify([name, version, bundle]);
      const nodes = claims.get(key)?.nodes ?? [];
      claims.set(key, { name, version, nodes: [...new Set([...nodes, node])] });
    }
  }
  const unreached = newestOf(others.flatMap((node) => unreachedOn(view, node, known)));
  const believed = [...claims.values()].filter(({ nodes }) => nodes.length >= Math.min(CLAIMANTS, others.length));
  return [...unreached, ...newestOf(believed).filter((one) => !unreached.some(({ name }) => name === one.name))];
}

/** Releases that this node lacks, and that a node offers which this one can't reach. */
function unreachedOn(
  view: FleetView,
  { name: node, status }: FleetNode,
  known: readonly LocalRelease[],
): readonly WantedRelease[] {
  const { trouble: why, unreached = [] } = view.peers.find(({ name }) => name === node) ?? {};
  if (why === undefined || unreached.length === 0) return [];
  const ownReleases = view.nodes.find(({ name }) => name === view.self)?.status?.releases ?? [];
  return (status?.releases ?? []).flatMap(({ name, version, bundle }): readonly WantedRelease[] => {
    if (!unreached.some((id) => hexOf(id).startsWith(bundle)) || isOffered(view, bundle)) return [];
    const ownRelease = ownReleases.find((one) => one.bundle === bundle);
    if (ownRelease === undefined ? isKnown(known, name, version, bundle) : !LACKS_SOURCE.has(ownRelease.reason ?? ''))
      return [];
    return [{ name, version, nodes: [node], unreached: { why, percent: ownRelease?.percent ?? 0 } }];
  });
}

/** Why a known release does not continue: it needs another node, or a stick. */
const LACKS_SOURCE: ReadonlySet<string> = new Set<Reason['code']>([
  'engine/no-source',
  'engine/image-missing',
  'engine/needs-copy',
  'engine/offline',
  'bundle/blob-missing',
  'media/peer-waited-for',
]);

/** How many nodes must name a release that this node can't verify. */
const CLAIMANTS = 2;

/** Returns the newest release of each name. */
function newestOf(claims: readonly WantedRelease[]): readonly WantedRelease[] {
  const newest = new Map<string, WantedRelease>();
  for (const claim of claims) {
    const before = newest.get(claim.name);
    const order = before === undefined ? 1 : compareVersions(claim.version, before.version);
    if (order > 0) newest.set(claim.name, claim);
    else if (before !== undefined && order === 0) {
      newest.set(claim.name, { ...before, nodes: [...new Set([...before.nodes, ...claim.nodes])] });
    }
  }
  return [...newest.values()];
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
export const REACHED: Readonly<Record<Exclude<WaitGoal, 'ready'>, ReadonlySet<Phase>>> = {
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

/**
 * Whether unknown nodes may exist: no other node is known, the API does not answer, and no list of
 * keys names all nodes.
 */
export function mayHaveOthers({ self, nodes, apiTrouble, keys }: FleetView): boolean {
  if (nodes.length === 0) return true;
  return apiTrouble !== undefined && !areListed(keys) && nodes.every(({ name }) => name === self);
}

/** Whether a list of keys without a fault names all nodes. */
export function areListed(keys: FleetKeys | undefined): boolean {
  return keys?.isRead === true && keys.trouble === undefined;
}

/** @param hasGoneOn the node has a later release of the stream in force */
function hasReached(release: ReleaseStatus, goal: WaitGoal, hasGoneOn: boolean): boolean {
  if (goal === 'ready') return isLoaded(release);
  return REACHED[goal].has(release.phase) && (hasGoneOn || isInForce(release));
}
