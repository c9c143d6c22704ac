import { hexOf } from '../model/digest.ts';
import { compareVersions } from '../model/version.ts';
import type { FleetView } from './fleet-view.ts';
import { isLoaded } from './loaded.ts';
import type { ReleaseStatus } from './node-status.ts';

/** A release that other nodes have loaded, which this node lacks and no node can give. */
export interface WantedRelease {
  readonly name: string;
  readonly version: string;
  /** Names of the nodes on which it is the current one, or ready to be. */
  readonly nodes: readonly string[];
}

/** What is known here of a release. */
interface KnownHere {
  readonly bundleId: Parameters<typeof hexOf>[0];
  readonly payload: { readonly name: string; readonly version: string };
}

/**
 * The current and the ready releases of other nodes of this architecture that are newer than all of
 * their stream that this node knows, and that no peer offers: somebody has to plug in a stick, in
 * any node. The newest of each stream.
 */
export function wantedReleases(view: FleetView | undefined, known: readonly KnownHere[]): readonly WantedRelease[] {
  if (view === undefined) return [];
  const wanted = new Map<string, WantedRelease>();
  const arch = view.nodes.find(({ name }) => name === view.self)?.status?.arch;
  for (const { name: node, status } of view.nodes) {
    const isOther = node === view.self || (status?.arch ?? arch) !== (arch ?? status?.arch);
    for (const release of isOther ? [] : (status?.releases ?? [])) {
      const { name, version, bundle, current } = release;
      if (current !== true && !isReadyThere(view, node, release)) continue;
      if (isKnown(known, name, version, bundle) || isOffered(view, bundle)) continue;
      const before = wanted.get(name);
      const order = before === undefined ? 1 : compareVersions(version, before.version);
      if (order > 0) wanted.set(name, { name, version, nodes: [node] });
      else if (before !== undefined && order === 0) wanted.set(name, { ...before, nodes: [...before.nodes, node] });
    }
  }
  return [...wanted.values()];
}

/** Whether it is ready on a node that answers. One that does not may have its stick. */
function isReadyThere({ peers }: FleetView, node: string, release: ReleaseStatus): boolean {
  const answers = peers.some(({ name, trouble }) => name === node && trouble === undefined);
  return release.phase === 'ready' && isLoaded(release) && answers;
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
