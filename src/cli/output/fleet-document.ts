import type { FleetNode, FleetView } from '../../domain/fleet/fleet-view.ts';

/** The cluster for programs: as {@link FleetView}, with times in RFC 3339. */
export function fleetDocument({ nodes, ...view }: FleetView): object {
  return { ...view, nodes: nodes.map(nodeDocument) };
}

function nodeDocument({ seenAt, ...node }: FleetNode): object {
  return { ...node, ...(seenAt !== undefined && { seenAt: new Date(seenAt).toISOString() }) };
}
