import { defined } from '../../platform/defined.ts';
import { streamScheme } from '../adoption/floors.ts';
import type { FleetView, LeftOut, ReleaseStatus } from '../fleet/node-status.ts';
import { endOf, heardPauses, isLasting, LONGEST_PAUSE_MS, newPause, type Pause, pauseOf } from '../fleet/pause.ts';
import { type AwaitedNode, type Turn, type TurnRelease, turnOf } from '../fleet/roll-out.ts';
import { NEW_SEARCH_MS } from '../fleet/turn.ts';
import type { BootTime } from '../model/image.ts';
import {
  BY_NAME,
  needsLabels,
  orderOfRelease,
  placeOf,
  type RollOutOrder,
  stricterOrder,
} from '../model/roll-out-order.ts';
import { beforeActivate, hasSucceeded } from '../release/hooks.ts';
import { currentRelease, hasBegun, isRolledBack } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import { isSameRun } from '../state/hook.ts';
import type { StoredBundle } from '../state/state.ts';
import { type GateContext, held, PASS } from './gate.ts';

type FleetContext = Pick<
  GateContext,
  'bundle' | 'bundles' | 'policy' | 'now' | 'clockSynchronised' | 'fleet' | 'hooks' | 'pauses'
>;

/** The order of the cluster: see {@link turnOf}. A request lifts it. */
export function fleet(context: FleetContext) {
  const { bundle, bundles, policy, now, fleet: view, hooks } = context;
  if (!policy.fleet.enabled || bundle.activationRequestedAt !== undefined) return PASS;
  const paused = pauseOfRelease(context);
  if (paused !== undefined) return paused;
  const order = orderOf(bundle, policy);
  if (order === undefined) return PASS;
  if (view === undefined) return held('fleet/unknown', {}, 'event');
  if (view.isOld === true) return held('fleet/reading', {}, 'event');
  const alone = waitForOthers(view, { bundle, bundles, absentMs: policy.fleet.absent, now });
  if (alone !== undefined) return alone;
  const out = hasBegunHook({ bundle, policy, hooks }) ? undefined : ownStateIn(view);
  // Its hook may have cordoned it before a restart of the daemon: then it comes last.
  const mayBeByHook = beforeActivate(bundle, policy) !== undefined;
  if (out === 'cordoned' && !mayBeByHook) return held('fleet/cordoned', { node: view.self }, 'event');
  const own = { place: ownPlace(order, view), out, lifted: liftedNodes(context) };
  const turn = turnOf(turnRelease(bundle, bundles), view, order, own);
  switch (turn.kind) {
    case 'go':
      return PASS;
    case 'rolled-back':
      return held('fleet/rolled-back', nodeData(turn.node, 0, turn), 'event');
    case 'not-ready':
      return held('fleet/not-ready', nodeData(turn.nodes[0], turn.nodes.length - 1, turn), 'event');
    case 'before':
      return held('fleet/order', nodeData(turn.node, 0, turn), 'event');
    case 'soak':
      return held('fleet/soak', { ...nodeData(turn.node, 0, turn), soakMs: order.canary?.soakMs ?? 0 }, 'event');
  }
}

/** In the place of a person. */
const ROLLBACK = 'a rollback';

interface PauseContext extends Pick<GateContext, 'bundles' | 'policy' | 'now' | 'clockSynchronised'> {
  readonly fleet?: FleetView | undefined;
  readonly pauses?: readonly Pause[] | undefined;
}

const NO_PAUSES: readonly Pause[] = [];

/**
 * All pauses that this node knows now. A rollback on it pauses the roll-out once, also over
 * restarts: its pause is always the same one. It ends when the release is activated again here.
 * Returns `pauses` itself where nothing changes.
 */
export function pausesAfter(context: PauseContext): readonly Pause[] {
  const { bundles, fleet: view, pauses = NO_PAUSES, now, policy } = context;
  if (view === undefined) return heardPauses(pauses, view, context);
  const backs = bundles.flatMap((bundle) => {
    const one = pauseOfRollback(bundle, view.self, now);
    return one === undefined
      ? []
      : [{ pause: one, onRollback: orderOf(bundle, policy)?.onRollback ?? 'pause', bundle }];
  });
  const heard = heardPauses(pauses, view, context, new Set(backs.map(({ pause }) => pause.id)));
  const fresh = backs
    .filter(({ bundle, onRollback }) => orderOf(bundle, policy) !== undefined && onRollback === 'pause')
    .map(({ pause }) => pause)
    .filter((one) => endOf(one) > now && !heard.some(({ id }) => id === one.id));
  /** Why the pause of a rollback on this node is over. */
  const overBy = (one: Pause): string | undefined => {
    if (one.by !== ROLLBACK || one.from !== undefined || one.lifted !== undefined) return undefined;
    const back = backs.find(({ pause }) => pause.id === one.id);
    if (back !== undefined) return back.onRollback === 'go-on' ? 'on_rollback = "go-on"' : undefined;
    const isHere = bundles.some(({ payload }) => payload.name === one.name && payload.version === one.version);
    return isHere ? 'an activation' : undefined;
  };
  if (fresh.length === 0 && !heard.some((one) => overBy(one) !== undefined)) return heard;
  const lifted = heard.map((one) => {
    const by = overBy(one);
    return by === undefined ? one : { ...one, lifted: { node: view.self, by } };
  });
  return [...fresh, ...lifted];
}

/** The clock may have been ahead at the rollback. */
function pauseOfRollback({ payload, ...bundle }: StoredBundle, node: string, now: number): Pause | undefined {
  const { name, version } = payload;
  const { rolledBackAt: causeMs } = bundle;
  if (causeMs === undefined || !isRolledBack({ payload, ...bundle })) return undefined;
  const said = { name, version, node, by: ROLLBACK, why: 'rolled back' };
  return newPause({ ...said, causeMs, atMs: Math.min(causeMs, now), forMs: LONGEST_PAUSE_MS });
}

/** Until then the rollback stops all other nodes, also those that know no pause of it. */
function isPauseOver(bundle: StoredBundle, node: string, context: RollOutContext): boolean {
  const one = pauseOfRollback(bundle, node, context.now);
  if (one === undefined || orderOf(bundle, context.policy)?.onRollback === 'go-on') return true;
  const known = context.pauses?.find(({ id }) => id === one.id);
  return known === undefined ? endOf(one) <= context.now : known.lifted !== undefined || !isLasting(known, context);
}

/** Nodes whose pause of this release a person lifted. They may not know it yet. */
function liftedNodes({ bundle, pauses = [] }: FleetContext): ReadonlySet<string> {
  const { name, version } = bundle.payload;
  const ofRelease = pauses.filter((one) => one.by === ROLLBACK && one.name === name && one.version === version);
  return new Set(ofRelease.filter(({ lifted }) => lifted !== undefined).map(({ node }) => node));
}

/** Stops what has not begun. */
function pauseOfRelease(context: FleetContext) {
  const { bundle, pauses = [] } = context;
  const pause = pauseOf(bundle.payload, pauses, context);
  if (pause === undefined || hasBegun(bundle) || isRolledBack(bundle) || hasBegunHook(context)) return undefined;
  const { id, node, by, why } = pause;
  const until = endOf(pause);
  return held('fleet/paused', { id, node, by, why, until }, by === ROLLBACK ? 'person' : 'time', {
    checkAgainAt: until,
  });
}

/**
 * Setting `update.fleet_lock`. A request lifts it, since the server may be gone. What has begun
 * ends without it: half-moved tags are worse.
 */
export function lock({ bundle, policy, fleet: view }: Pick<GateContext, 'bundle' | 'policy' | 'fleet'>) {
  const url = policy.update.fleet_lock;
  if (url === '' || bundle.activationRequestedAt !== undefined || view?.lock?.isHeld === true) return PASS;
  if (hasBegun(bundle)) return PASS;
  const data = defined({ server: new URL(url).host, why: view?.lock?.why, isUnknown: view === undefined || undefined });
  return held('fleet/lock', data, 'event', { keepsDue: true });
}

/**
 * That of the bundle, which settings of the node only make stricter, or else that of the settings.
 * Undefined where the node activates alone.
 */
function orderOf({ payload }: Pick<StoredBundle, 'payload'>, policy: Policy): RollOutOrder | undefined {
  const { enabled, activate, order } = policy.fleet;
  if (!enabled) return undefined;
  const own = policy.streams[payload.name]?.order ?? order ?? BY_NAME;
  const signed = payload.update?.order;
  if (signed !== undefined) return stricterOrder(orderOfRelease(signed), own);
  return activate === 'ordered' ? own : undefined;
}

export interface RollOutContext
  extends Pick<GateContext, 'bundle' | 'policy' | 'now' | 'clockSynchronised' | 'fleet' | 'absentImages' | 'pauses'> {
  readonly boot: BootTime;
}

/** What other nodes need to know for their order. */
export type RollOutState = Pick<ReleaseStatus, 'place' | 'begun' | 'soaked' | 'back'>;

/**
 * Undefined where there is nothing.
 *
 * @param isDue its activation is due, or would be with all images
 */
export function rollOutState(context: RollOutContext, isDue: boolean): RollOutState | undefined {
  const { bundle, policy, fleet: view, boot, now, absentImages } = context;
  const order = orderOf(bundle, policy);
  // The fleet process requests the lock of a release that has begun.
  if (order === undefined && policy.update.fleet_lock === '') return undefined;
  const state: RollOutState = defined({
    place: order && view && ownPlace(order, view),
    begun: (isDue && absentImages === 0 && bundle.activatedAt === undefined) || undefined,
    soaked: (order?.canary !== undefined && ranMs(bundle, boot, now) >= order.canary.soakMs) || undefined,
    back: (view !== undefined && isGivenUp(bundle) && isPauseOver(bundle, view.self, context)) || undefined,
  });
  return Object.keys(state).length === 0 ? undefined : state;
}

/** Until its activation is requested again. */
function isGivenUp(bundle: StoredBundle): boolean {
  const { activationRequestedAt = 0, rolledBackAt = 0 } = bundle;
  return isRolledBack(bundle) && activationRequestedAt <= rolledBackAt;
}

/** By the uptime, since the wall clock may jump. A reboot begins it again. */
function ranMs({ activatedAt, activatedUptime }: StoredBundle, { bootId, uptimeMs }: BootTime, now: number): number {
  if (activatedAt === undefined) return Number.NEGATIVE_INFINITY;
  if (activatedUptime === undefined) return Math.min(uptimeMs, now - activatedAt);
  return activatedUptime.bootId === bootId ? uptimeMs - activatedUptime.uptimeMs : uptimeMs;
}

function ownPlace(order: RollOutOrder, { labels }: FleetView): number | undefined {
  return labels === undefined || !needsLabels(order) ? undefined : placeOf(order, labels);
}

function ownStateIn({ self, nodes }: FleetView): LeftOut | undefined {
  return nodes.find(({ name }) => name === self)?.status?.out;
}

/** A hook before the activation may cordon the node. */
function hasBegunHook({ bundle, policy, hooks }: Pick<GateContext, 'bundle' | 'policy' | 'hooks'>): boolean {
  const run = beforeActivate(bundle, policy);
  if (run === undefined) return false;
  const hasRun = [...hooks.running, ...hooks.failed].some((one) => isSameRun(one, run));
  return hasRun || hasSucceeded(run, hooks.ledger);
}

export function turnRelease(
  { bundleId, payload }: Pick<StoredBundle, 'bundleId' | 'payload'>,
  bundles: readonly StoredBundle[],
): TurnRelease {
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
) {
  if (apiTrouble === undefined || nodes.some(({ name }) => name !== self)) return undefined;
  const isFirst = !bundles.some(
    (other) => other.bundleId !== bundle.bundleId && other.payload.name === bundle.payload.name && other.activatedAt,
  );
  const { readyAt } = bundle;
  const overAt = readyAt === undefined ? Number.POSITIVE_INFINITY : readyAt + absentMs;
  if (isFirst ? search !== 'new' : search === 'long' && now >= overAt) return undefined;
  const waitMs = isFirst ? Math.min(NEW_SEARCH_MS, absentMs) : absentMs;
  const checkAgainAt = !isFirst && Number.isFinite(overAt) && now < overAt ? overAt : undefined;
  return held('fleet/nobody-known', { waitMs, isFirst }, 'event', defined({ checkAgainAt }));
}

/** `more`: how many other nodes are awaited. `absent` and `out`: names, separated by commas. */
function nodeData({ name: node, release, isUnknown }: AwaitedNode, more: number, turn: Turn) {
  const { phase, percent, reason, begun } = release ?? {};
  const [absent, out] = [turn.absent, turn.out].map((names) => names.join(', ') || undefined);
  return defined({ node, more, phase, percent, reason, begun, isUnknown, absent, out });
}
