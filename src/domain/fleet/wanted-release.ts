import { hexOf } from '../model/digest.ts';
import { compareVersions } from '../model/version/version-scheme.ts';
import type { FleetView } from './fleet-view.ts';

/** A release that other nodes run, which this node lacks and no node can give. */
export interface WantedRelease {
  readonly name: string;
  readonly version: string;
  /** Names of the nodes on which it is the current one. */
  readonly nodes: readonly string[];
}

/** What is known here of a release. */
interface KnownHere {
  readonly bundleId: Parameters<typeof hexOf>[0];
  readonly payload: { readonly name: string; readonly version: string };
}

/**
 * The current releases of other nodes that are newer than all of their stream that this node knows,
 * and that no peer offers: somebody has to plug in a stick, in any node. The newest of each stream.
 */
export function wantedReleases(view: FleetView | undefined, known: readonly KnownHere[]): readonly WantedRelease[] {
  if (view === undefined) return [];
  const wanted = new Map<string, WantedRelease>();
  for (const { name: node, status } of view.nodes) {
    for (const { name, version, bundle, current } of node === view.self ? [] : (status?.releases ?? [])) {
      if (current !== true || isKnown(known, name, version, bundle) || isOffered(view, bundle)) continue;
      const before = wanted.get(name);
      const order = before === undefined ? 1 : compareVersions(version, before.version);
      if (order > 0) wanted.set(name, { name, version, nodes: [node] });
      else if (before !== undefined && order === 0) wanted.set(name, { ...before, nodes: [...before.nodes, node] });
    }
  }
  return [...wanted.values()];
}

/** @param bundle the first hex digits of its id */
function isKnown(known: readonly KnownHere[], name: string, version: string, bundle: string): boolean {
  return known.some(
    ({ bundleId, payload }) =>
      hexOf(bundleId).startsWith(bundle) || (payload.name === name && compareVersions(payload.version, version) >= 0),
  );
}

function isOffered({ peers }: FleetView, bundle: string): boolean {
  return peers.some(({ bundles }) => bundles.some(({ bundleId }) => hexOf(bundleId).startsWith(bundle)));
}
