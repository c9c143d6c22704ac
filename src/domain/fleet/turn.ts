import { type BundleId, hexOf } from '../model/digest.ts';
import type { Phase } from '../model/phase.ts';
import type { VersionScheme } from '../model/version.ts';
import type { FleetNode, FleetView } from './fleet-view.ts';
import { isBack, isInForce } from './in-force.ts';
import { isLoaded } from './loaded.ts';
import { isCut, type ReleaseStatus } from './node-status.ts';
import { isLater, isPast } from './past.ts';

/** A release that is to be activated on the nodes of a cluster, one after the other. */
export interface TurnRelease {
  readonly bundleId: BundleId;
  readonly name: string;
  readonly version: string;
  /** GOARCH of the nodes that its bundle is made for. */
  readonly arch: string;
  /** Of its stream; undefined while its versions fit both. */
  readonly scheme: VersionScheme | undefined;
  /** The version that it replaces on this node; absent when it is the first of its stream. */
  readonly replaces?: string | undefined;
}

/** A node that is waited for. */
export interface AwaitedNode {
  readonly name: string;
  /** How far it is with the release; absent when it lacks it, or that is not known. */
  readonly release?: ReleaseStatus;
  /** It has more releases than it told. */
  readonly isUnknown?: true;
}

/**
 * Whether it is this node's turn. `rolled-back`: a node went back from the release. `not-ready`:
 * nodes lack images; `before`: the first node by name that has to activate the release first.
 * `absent`: nodes that are left out, since they were not heard of for long.
 */
export type Turn = (
  | { readonly kind: 'go' }
  | { readonly kind: 'rolled-back'; readonly node: AwaitedNode }
  | { readonly kind: 'not-ready'; readonly nodes: readonly [AwaitedNode, ...AwaitedNode[]] }
  | { readonly kind: 'before'; readonly node: AwaitedNode }
) & { readonly absent: readonly string[] };

const ACTIVATED: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven']);

/**
 * The order of an activation in a cluster: all nodes load the images first; then they activate by
 * name, each after the one before it has activated and, where containers show it, runs from it.
 * Every node comes to the same order, so no lock is needed. Where one went back, wherever it is in
 * the order, no other one follows it automatically.
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

/** How many nodes, of all with this one, load a release from this node. */
export interface LoadingNodes {
  readonly loading: number;
  readonly all: number;
}

/**
 * The nodes that need the stick in this node to load a release. Undefined when none does: all
 * others have its images, are absent, went on to a later release, rejected it or gave it up, or
 * another node gives it.
 *
 * @param isLong the release has been offered for `fleet.absent`: a node that has not begun by then,
 *   as one that trusts no key of it, is not waited for
 */
export function nodesLoading(
  release: TurnRelease,
  { self, nodes, peers }: FleetView,
  isLong: boolean,
): LoadingNodes | undefined {
  const others = nodes.filter(
    (node) => node.name !== self && isCounted(node, release) && isMadeFor(node, release) && !hasRejected(node, release),
  );
  const loading = others
    .flatMap((node) => awaitedNode(node, release) ?? [])
    .filter((node) => isStillLoading(node) && (node.release !== undefined || !isLong));
  const isGiven = peers.some(
    ({ trouble, bundles }) =>
      trouble === undefined && bundles.some(({ bundleId, isWhole }) => bundleId === release.bundleId && isWhole),
  );
  return loading.length === 0 || isGiven ? undefined : { loading: loading.length, all: others.length + 1 };
}

/** What a node that tells only a part does not name may be loaded there. */
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
 * Whether a node is left out, since it has a later release of the stream. With a downgrade the
 * version is no sign of that: all nodes that it is made for have a later one before.
 */
function hasGoneOn({ status }: FleetNode, release: TurnRelease): boolean {
  const { version, replaces, scheme } = release;
  const isDowngrade = replaces !== undefined && isLater(replaces, version, scheme);
  return !isDowngrade && isPast(status, release);
}

/** Undefined for a node of another architecture, which never takes the bundle. */
function awaitedNode(node: FleetNode, wanted: TurnRelease): AwaitedNode | undefined {
  const { name, status } = node;
  const isOther = !isMadeFor(node, wanted);
  const id = hexOf(wanted.bundleId).slice(0, 16);
  const release = status?.releases.find((one) => (isOther ? isSameRelease(one, wanted) : one.bundle === id));
  if (release !== undefined) return { name, release };
  return isOther ? undefined : { name, ...(isCut(status) && { isUnknown: true }) };
}

/** Whether it is the same release for another architecture: both follow one order. */
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
