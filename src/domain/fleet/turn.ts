import { type BundleId, hexOf } from '../model/digest.ts';
import type { Phase } from '../model/phase.ts';
import { compareVersions, fitsScheme, type VersionScheme } from '../model/version/version-scheme.ts';
import type { FleetNode, FleetView } from './fleet-view.ts';
import { isLoaded } from './loaded.ts';
import { isCut, type ReleaseStatus } from './node-status.ts';

/** A release that is to be activated on the nodes of a cluster, one after the other. */
export interface TurnRelease {
  readonly bundleId: BundleId;
  readonly name: string;
  readonly version: string;
  readonly scheme: VersionScheme | undefined;
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
 * Whether it is this node's turn. `not-ready`: nodes lack images; `before`: the first node by name
 * that has to activate the release first. `absent`: nodes that are left out, since they were not
 * heard of for long.
 */
export type Turn = (
  | { readonly kind: 'go' }
  | { readonly kind: 'not-ready'; readonly nodes: readonly [AwaitedNode, ...AwaitedNode[]] }
  | { readonly kind: 'before'; readonly node: AwaitedNode }
) & { readonly absent: readonly string[] };

const ACTIVATED: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven', 'superseded']);

/**
 * The order of an activation in a cluster: all nodes load the images first; then they activate by
 * name, each after the one before it has activated and, where containers show it, runs from it.
 * Every node comes to the same order, so no lock is needed.
 */
export function turnOf(release: TurnRelease, { self, nodes }: FleetView): Turn {
  const others = nodes.filter(({ name }) => name !== self).sort((a, b) => byName(a.name, b.name));
  const absent = others.filter(({ isAbsent }) => isAbsent).map(({ name }) => name);
  const awaited = others
    .filter((node) => !node.isAbsent && !isPast(node, release))
    .map((node) => awaitedNode(node, release));
  const [lagging, ...more] = awaited.filter((node) => !isReady(node));
  if (lagging !== undefined) return { kind: 'not-ready', nodes: [lagging, ...more], absent };
  const before = awaited.find((node) => byName(node.name, self) < 0 && !isActivated(node));
  return before === undefined ? { kind: 'go', absent } : { kind: 'before', node: before, absent };
}

function awaitedNode({ name, status }: FleetNode, { bundleId }: TurnRelease): AwaitedNode {
  const id = hexOf(bundleId).slice(0, 16);
  const release = status?.releases.find(({ bundle }) => bundle === id);
  if (release !== undefined) return { name, release };
  return { name, ...(isCut(status) && { isUnknown: true }) };
}

function isReady({ release }: AwaitedNode): boolean {
  return release !== undefined && isLoaded(release);
}

/** One that was rolled back has another release in force: it is not activated there now. */
function isActivated({ release }: AwaitedNode): boolean {
  if (release === undefined || !ACTIVATED.has(release.phase)) return false;
  return release.runs !== false && !(release.phase === 'activated' && release.current === false);
}

/** Whether a node has gone on to a later release of the stream. */
function isPast({ status }: FleetNode, { name, version, scheme }: TurnRelease): boolean {
  const current = status?.releases.find((one) => one.name === name && one.current === true);
  const way = scheme ?? 'semver';
  return (
    current !== undefined &&
    fitsScheme(current.version, way) &&
    fitsScheme(version, way) &&
    compareVersions(current.version, version, way) > 0
  );
}

/** By code units, so that every node sorts alike. */
function byName(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
