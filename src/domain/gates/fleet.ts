import type { AwaitedNode, Turn } from '../fleet/turn.ts';
import { turnOf } from '../fleet/turn.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

/**
 * `node`: the one that is waited for, with how far it is; `more`: how many others are. `absent`:
 * names of nodes that are left out, separated by commas; absent when none is.
 */
type NodeData = {
  readonly node: string;
  readonly phase?: string;
  readonly percent?: number;
  readonly reason?: string;
  readonly more: number;
  readonly absent?: string;
};

type FleetHold =
  | Hold<'fleet/unknown', Record<never, never>>
  | Hold<'fleet/not-ready', NodeData>
  | Hold<'fleet/order', NodeData>;

/**
 * Setting `fleet.activate = "ordered"`: a release is activated once all known nodes are ready, and
 * after the nodes before this one, by name. A person who asks for it lifts that.
 */
export function fleet({
  bundle,
  policy,
  fleet: view,
}: Pick<GateContext, 'bundle' | 'policy' | 'fleet'>): GateVerdict<FleetHold> {
  const { enabled, activate } = policy.fleet;
  if (!enabled || activate !== 'ordered' || bundle.activationRequestedAt !== undefined) return PASS;
  if (view === undefined) {
    return { kind: 'hold', hold: { code: 'fleet/unknown', data: {}, releasedBy: 'event' } };
  }
  const { bundleId, payload } = bundle;
  const release = { bundleId, name: payload.name, version: payload.version, scheme: payload.versionScheme };
  const turn = turnOf(release, view);
  switch (turn.kind) {
    case 'go':
      return PASS;
    case 'not-ready':
      return held('fleet/not-ready', turn.nodes[0], turn.nodes.length - 1, turn);
    case 'before':
      return held('fleet/order', turn.node, 0, turn);
  }
}

function held(
  code: 'fleet/not-ready' | 'fleet/order',
  { name, release }: AwaitedNode,
  more: number,
  { absent }: Turn,
): GateVerdict<FleetHold> {
  const data = {
    node: name,
    more,
    ...(release !== undefined && { phase: release.phase }),
    ...(release?.percent !== undefined && { percent: release.percent }),
    ...(release?.reason !== undefined && { reason: release.reason }),
    ...(absent.length > 0 && { absent: absent.join(', ') }),
  };
  return { kind: 'hold', hold: { code, data, releasedBy: 'event' } };
}
