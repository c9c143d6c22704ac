import { streamScheme } from '../adoption/stream-facts.ts';
import type { FleetView } from '../fleet/node-status.ts';
import { type AwaitedNode, NEW_SEARCH_MS, type Turn, type TurnRelease, turnOf } from '../fleet/turn.ts';
import { currentRelease } from '../release/recorded-phase.ts';
import type { StoredBundle } from '../state/state.ts';
import { type GateContext, type GateVerdict, type Hold, PASS } from './gate.ts';

/** `more`: how many other nodes are awaited. `absent`: names, separated by commas. */
type NodeData = {
  readonly node: string;
  readonly phase?: string;
  readonly percent?: number;
  readonly reason?: string;
  readonly isUnknown?: true;
  readonly more: number;
  readonly absent?: string;
};

type FleetHold =
  | Hold<'fleet/unknown', Record<never, never>>
  | Hold<'fleet/nobody-known', { readonly waitMs: number; readonly isFirst: boolean }>
  | Hold<'fleet/rolled-back', NodeData>
  | Hold<'fleet/not-ready', NodeData>
  | Hold<'fleet/order', NodeData>;

/** Setting `fleet.activate = "ordered"`: see {@link turnOf}. A request lifts it. */
export function fleet({
  bundle,
  bundles,
  policy,
  now,
  fleet: view,
}: Pick<GateContext, 'bundle' | 'bundles' | 'policy' | 'now' | 'fleet'>): GateVerdict<FleetHold> {
  const { enabled, activate } = policy.fleet;
  if (!enabled || activate !== 'ordered' || bundle.activationRequestedAt !== undefined) return PASS;
  if (view === undefined) {
    return { kind: 'hold', hold: { code: 'fleet/unknown', data: {}, releasedBy: 'event' } };
  }
  const alone = waitForOthers(view, { bundle, bundles, absentMs: policy.fleet.absent, now });
  if (alone !== undefined) return alone;
  const turn = turnOf(turnRelease(bundle, bundles), view);
  switch (turn.kind) {
    case 'go':
      return PASS;
    case 'rolled-back':
      return held('fleet/rolled-back', turn.node, 0, turn);
    case 'not-ready':
      return held('fleet/not-ready', turn.nodes[0], turn.nodes.length - 1, turn);
    case 'before':
      return held('fleet/order', turn.node, 0, turn);
  }
}

export function turnRelease({ bundleId, payload }: StoredBundle, bundles: readonly StoredBundle[]): TurnRelease {
  const { name, version, arch } = payload;
  const replaces = currentRelease(bundles, name)?.payload.version;
  return { bundleId, name, version, arch, scheme: streamScheme(bundles, name), replaces };
}

/**
 * A node that knows no other one may be alone, or the Kubernetes API has not answered yet: after a
 * power cut there may be none before stickpin has done its work. So it waits as long as for a
 * silent node. The time counts from the start of the fleet process and from when the release was
 * ready; a restart or a clock that is set back makes it longer. The first release of a stream waits
 * only until the API had time to answer, since nothing runs yet that an order would protect.
 */
function waitForOthers(
  { self, nodes, apiTrouble, search = 'new' }: FleetView,
  { bundle, bundles, absentMs, now }: Pick<GateContext, 'bundle' | 'bundles' | 'now'> & { readonly absentMs: number },
): GateVerdict<FleetHold> | undefined {
  if (apiTrouble === undefined || nodes.some(({ name }) => name !== self)) return undefined;
  const isFirst = !bundles.some(
    (other) => other.bundleId !== bundle.bundleId && other.payload.name === bundle.payload.name && other.activatedAt,
  );
  const { readyAt } = bundle;
  const overAt = readyAt === undefined ? Number.POSITIVE_INFINITY : readyAt + absentMs;
  if (isFirst ? search !== 'new' : search === 'long' && now >= overAt) return undefined;
  const waitMs = isFirst ? Math.min(NEW_SEARCH_MS, absentMs) : absentMs;
  const checkAgainAt = !isFirst && Number.isFinite(overAt) && now < overAt ? { checkAgainAt: overAt } : {};
  return {
    kind: 'hold',
    hold: { code: 'fleet/nobody-known', data: { waitMs, isFirst }, releasedBy: 'event', ...checkAgainAt },
  };
}

function held(
  code: 'fleet/rolled-back' | 'fleet/not-ready' | 'fleet/order',
  { name, release, isUnknown }: AwaitedNode,
  more: number,
  { absent }: Turn,
): GateVerdict<FleetHold> {
  const data = {
    node: name,
    more,
    ...(release !== undefined && { phase: release.phase }),
    ...(release?.percent !== undefined && { percent: release.percent }),
    ...(release?.reason !== undefined && { reason: release.reason }),
    ...(isUnknown && { isUnknown }),
    ...(absent.length > 0 && { absent: absent.join(', ') }),
  };
  return { kind: 'hold', hold: { code, data, releasedBy: 'event' } };
}
