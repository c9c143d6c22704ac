import { defined } from '../../platform/defined.ts';
import { streamScheme } from '../adoption/floors.ts';
import type { AwaitedNode, TurnRelease } from '../fleet/awaited-node.ts';
import type { FleetView, ReleaseStatus } from '../fleet/node-status.ts';
import {
  endOf,
  heardPauses,
  isFirstHand,
  isLasting,
  isOwn,
  LONGEST_PAUSE_MS,
  newPause,
  type Pause,
  pauseOf,
} from '../fleet/pause.ts';
import { progressOf, type RollOutProgress } from '../fleet/progress.ts';
import { isFirstInstall, type Turn, turnOf } from '../fleet/roll-out.ts';
import { areListed, NEW_SEARCH_MS } from '../fleet/turn.ts';
import {
  BY_NAME,
  labelKeys,
  mostFailures,
  orderOfRelease,
  type RollOutOrder,
  stricterOrder,
} from '../model/roll-out-order.ts';
import { wordOf } from '../release/evidence.ts';
import { beforeActivate, hasSucceeded } from '../release/hooks.ts';
import { currentRelease, hasBegun, isRolledBack } from '../release/recorded-phase.ts';
import type { Policy } from '../settings/settings.ts';
import { isSameRun } from '../state/hook.ts';
import { isOrdered, type StoredBundle } from '../state/state.ts';
import { type GateContext, held, PASS } from './gate.ts';

type FleetContext = Pick<
  GateContext,
  'bundle' | 'bundles' | 'policy' | 'now' | 'clockSynchronised' | 'fleet' | 'hooks' | 'pauses' | 'sightings'
>;

/** Holds a release until its turn in the cluster (see {@link turnOf}). A request lifts the hold. */
export function fleet(context: FleetContext) {
  const { bundle, bundles, policy, now, fleet: view } = context;
  if (!policy.fleet.enabled || bundle.activationRequestedAt !== undefined) return PASS;
  const paused = pauseOfRelease(context);
  if (paused !== undefined) return paused;
  const order = orderOf(bundle, policy);
  // A begun activation continues, also after a restart: half-moved tags are worse.
  if (order === undefined || hasBegun(bundle) || hasBegunHook(context)) return PASS;
  if (view === undefined) return held('fleet/unknown', {}, 'event');
  if (view.isOld === true) return reading(undefined);
  const alone = waitForOthers(view, { bundle, bundles, absentMs: policy.fleet.absent, now });
  if (alone !== undefined) return alone;
  // The node's own hook may have cordoned it before a restart of the daemon. Then it comes last.
  const mayBeByHook = beforeActivate(bundle, policy) !== undefined;
  if (isCordoned(view) && !mayBeByHook) return held('fleet/cordoned', { node: view.self }, 'event');
  if (view.nodes.every(({ name }) => name === view.self)) return PASS;
  const turn = rollOutTurn(context, view, order);
  // The images that other nodes lack are known without their Node objects.
  return (turn.kind === 'not-ready' ? undefined : unreadFacts(context, view, order)) ?? heldBy(turn, now, view);
}

type TurnContext = Pick<GateContext, 'bundle' | 'bundles' | 'pauses' | 'sightings'>;

function rollOutTurn(context: TurnContext, view: FleetView, order: RollOutOrder): Turn {
  const { bundle, bundles, sightings } = context;
  const ownTurn = { sightings, lifted: liftedNodes(context), isLast: isCordoned(view) };
  const isByName = view.apiTrouble !== undefined && !isKnown(view, order);
  const byName = { ...order, ...BY_NAME, maxUnavailable: order.maxUnavailable };
  return turnOf(turnRelease(bundle, bundles), view, isByName ? byName : order, ownTurn);
}

/**
 * Facts about nodes come from their Node objects. Without them only an order by name continues, and
 * the first release of a stream, since the API server may need that release to run.
 */
function unreadFacts({ bundle, bundles }: TurnContext, view: FleetView, order: RollOutOrder) {
  if (isKnown(view, order)) return undefined;
  if (view.apiTrouble !== undefined && isFirstInstall(turnRelease(bundle, bundles), view)) return undefined;
  return view.keys === undefined ? reading(view.apiTrouble) : held('fleet/labels', {}, 'event');
}

function isKnown({ apiTrouble, readLabels, nodes }: FleetView, order: RollOutOrder): boolean {
  const keys = labelKeys(order);
  const isRead = readLabels !== undefined && keys.every((key) => readLabels.includes(key));
  if (apiTrouble === undefined) return isRead;
  return keys.length === 0 || (isRead && nodes.every(({ facts }) => facts !== undefined));
}

/** @param why the labels can't be read */
function reading(why: string | undefined) {
  return held('fleet/reading', { why }, 'event');
}

function heldBy(turn: Turn, now: number, view: FleetView) {
  const about = (node: AwaitedNode, more = 0) => nodeData(node, more, turn, view);
  switch (turn.kind) {
    case 'go':
      return PASS;
    case 'failed':
      return held('fleet/failed', { ...about(turn.node), why: turn.why }, 'event');
    case 'no-canary':
      return held('fleet/no-canary', { selector: turn.selector, nodes: turn.names.join(', ') }, 'event');
    case 'not-ready':
      return held('fleet/not-ready', about(turn.nodes[0], turn.nodes.length - 1), 'event');
    case 'before':
      return held('fleet/order', about(turn.node), 'event');
    case 'unavailable': {
      const { node, why, most } = turn;
      return held('fleet/unavailable', { ...about(node), why, most }, 'event');
    }
    case 'settle':
    case 'soak': {
      const { node, forMs, leftMs } = turn;
      const data = defined({ ...about(node), forMs, isByKeys: view.keys !== undefined || undefined });
      const more = leftMs === undefined ? {} : { checkAgainAt: now + leftMs };
      if (turn.kind === 'soak') return held('fleet/soak', data, 'event', more);
      return held('fleet/settle', data, 'event', more);
    }
  }
}

/** Stands in a pause where the name of a person would be. */
const ROLLBACK = 'a rollback';

interface PauseContext extends Pick<GateContext, 'bundles' | 'policy' | 'now' | 'clockSynchronised'> {
  readonly fleet?: FleetView | undefined;
  readonly pauses?: readonly Pause[] | undefined;
}

const NO_PAUSES: readonly Pause[] = [];

/**
 * Returns all pauses that this node knows now, or `pauses` itself if nothing changes. A rollback on
 * this node pauses the roll-out once, also over restarts, until the release is activated again.
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
    .filter(({ bundle, onRollback }) => onRollback === 'pause' && isFirstFailureEnough(orderOf(bundle, policy)))
    .map(({ pause }) => pause)
    .filter((one) => endOf(one) > now && !heard.some((other) => isOwn(other) && other.id === one.id));
  /** Returns why the pause of a rollback on this node is over. */
  const overBy = (one: Pause): string | undefined => {
    if (one.by !== ROLLBACK || !isOwn(one) || one.lifted !== undefined) return undefined;
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

function isFirstFailureEnough(order: RollOutOrder | undefined): boolean {
  return order !== undefined && mostFailures(order) === 1;
}

/** Limits the start to `now`, since the clock may have been ahead at the rollback. */
function pauseOfRollback({ payload, ...bundle }: StoredBundle, node: string, now: number): Pause | undefined {
  const { name, version } = payload;
  const { rolledBackAt: causeMs } = bundle;
  if (causeMs === undefined || !isRolledBack({ payload, ...bundle })) return undefined;
  const pause = { name, version, node, by: ROLLBACK, why: 'rolled back' };
  return newPause({ ...pause, causeMs, atMs: Math.min(causeMs, now), forMs: LONGEST_PAUSE_MS });
}

/** Until then the rollback stops all other nodes, also those that don't know its pause. */
function isPauseOver(bundle: StoredBundle, node: string, context: RollOutContext): boolean {
  const one = pauseOfRollback(bundle, node, context.now);
  if (one === undefined || orderOf(bundle, context.policy)?.onRollback === 'go-on') return true;
  const known = context.pauses?.find((other) => isOwn(other) && other.id === one.id);
  return known === undefined ? endOf(one) <= context.now : known.lifted !== undefined || !isLasting(known, context);
}

/** Returns the nodes whose own pause of this release a person lifted. They may not know it yet. */
function liftedNodes({ bundle, pauses = [] }: TurnContext): ReadonlySet<string> {
  const { name, version } = bundle.payload;
  const lifted = pauses.filter((one) => one.by === ROLLBACK && isFirstHand(one) && one.lifted !== undefined);
  return new Set(lifted.filter((one) => one.name === name && one.version === version).map(({ node }) => node));
}

/** Holds only a release whose activation has not begun. */
function pauseOfRelease(context: FleetContext) {
  const { bundle, pauses = [] } = context;
  const pause = pauseOf(bundle.payload, pauses, context);
  if (pause === undefined || hasBegun(bundle) || isRolledBack(bundle) || hasBegunHook(context)) return undefined;
  const { id, node, by, why, from } = pause;
  const until = endOf(pause);
  const data = defined({ id, node, by, why, until, from, passedOnBy: isFirstHand(pause) ? undefined : from });
  return held('fleet/paused', data, by === ROLLBACK ? 'person' : 'time', {
    checkAgainAt: until,
  });
}

/**
 * Setting `update.fleet_lock`. A request lifts the hold, since the server may be gone. A begun
 * activation continues without the lock: half-moved tags are worse.
 */
export function lock({ bundle, policy, fleet: view }: Pick<GateContext, 'bundle' | 'policy' | 'fleet'>) {
  const url = policy.update.fleet_lock;
  if (url === '' || bundle.activationRequestedAt !== undefined || view?.lock?.isHeld === true) return PASS;
  if (hasBegun(bundle)) return PASS;
  const data = defined({ server: new URL(url).host, why: view?.lock?.why, isUnknown: view === undefined || undefined });
  return held('fleet/lock', data, 'event', { keepsDue: true });
}

/**
 * Returns the order of the bundle, or else that of the settings. Settings of the node only make the
 * order of the bundle stricter. Undefined means that the node activates alone.
 */
function orderOf({ payload }: StoredBundle, policy: Policy): RollOutOrder | undefined {
  if (!isOrdered({ payload }, policy)) return undefined;
  const configured = policy.streams[payload.name]?.order ?? policy.fleet.order ?? BY_NAME;
  const signed = payload.update?.order;
  return signed === undefined ? configured : stricterOrder(orderOfRelease(signed), configured);
}

export interface RollOutContext
  extends TurnContext,
    Pick<GateContext, 'policy' | 'now' | 'clockSynchronised' | 'fleet' | 'absentImages'> {
  /** The activation is due, or would be with all images. */
  readonly isDue: boolean;
  /** Only other nodes hold the activation. */
  readonly waits: boolean;
}

/** Other nodes need it for their order, and the fleet process reads what `reads` names. */
export interface RollOutState extends Pick<ReleaseStatus, 'begun' | 'back' | 'disturbedMs' | 'fails'> {
  /** Label keys that decide about a release that waits for its turn. */
  readonly reads?: readonly string[];
  readonly progress?: RollOutProgress;
}

/** @returns undefined when there is nothing to report */
export function rollOutState(context: RollOutContext): RollOutState | undefined {
  const { bundle, policy, fleet: view, absentImages, isDue, waits } = context;
  const order = orderOf(bundle, policy);
  // The fleet process requests the lock of a release that has begun.
  if (order === undefined && policy.update.fleet_lock === '') return undefined;
  const isComplete = absentImages === 0;
  const state: RollOutState = defined({
    begun: (isDue && isComplete && bundle.activatedAt === undefined) || undefined,
    back: (view !== undefined && isGivenUp(bundle) && isPauseOver(bundle, view.self, context)) || undefined,
    ...evidenceOf(bundle),
    reads: order !== undefined && waits && isComplete ? labelKeys(order) : undefined,
    progress: order && progressOfRelease(context, order),
  });
  return Object.keys(state).length === 0 ? undefined : state;
}

/** Labels of Nodes are only read until the activation, so progress by labels ends with it. */
function progressOfRelease(context: RollOutContext, order: RollOutOrder): RollOutProgress | undefined {
  const { bundle, bundles, fleet: view, now, waits, isDue } = context;
  if (view === undefined || view.isOld === true) return undefined;
  const isCurrent = currentRelease(bundles, bundle.payload.name)?.bundleId === bundle.bundleId;
  const isShown = waits || isDue ? isKnown(view, order) : isCurrent && labelKeys(order).length === 0;
  return isShown ? progressOf(rollOutTurn(context, view, order).line, view.self, now) : undefined;
}

/** A restart begins the soak anew on other nodes. */
function evidenceOf({ soak, activatedAt }: StoredBundle): Pick<RollOutState, 'disturbedMs' | 'fails'> {
  if (soak === undefined || soak.activatedAt !== activatedAt) return {};
  const { disturbedMs, fails } = wordOf((soak.afterProof ?? soak).components);
  return defined({ disturbedMs, fails: fails || undefined });
}

/** A request to activate the release again ends it. */
function isGivenUp(bundle: StoredBundle): boolean {
  const { activationRequestedAt = 0, rolledBackAt = 0 } = bundle;
  return isRolledBack(bundle) && activationRequestedAt <= rolledBackAt;
}

function isCordoned({ self, nodes }: FleetView): boolean {
  return nodes.find(({ name }) => name === self)?.facts?.isCordoned === true;
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
 * Waits for other nodes as long as for a silent one. A node that knows no others may be alone, or
 * the Kubernetes API has not answered yet: after a power cut there may be no API before stickpin
 * has done its work. The time counts from the start of the fleet process and from when the release
 * was ready. A restart or a clock that is set back makes it longer. The first release of a stream
 * waits only until the API had time to answer, since no running release needs an order yet.
 */
function waitForOthers(
  { self, nodes, apiTrouble, keys, search = 'new' }: FleetView,
  { bundle, bundles, absentMs, now }: Pick<GateContext, 'bundle' | 'bundles' | 'now'> & { readonly absentMs: number },
) {
  if (apiTrouble === undefined || areListed(keys) || nodes.some(({ name }) => name !== self)) return undefined;
  const isFirst = !bundles.some(
    (other) => other.bundleId !== bundle.bundleId && other.payload.name === bundle.payload.name && other.activatedAt,
  );
  const { readyAt } = bundle;
  const overAt = readyAt === undefined ? Number.POSITIVE_INFINITY : readyAt + absentMs;
  if (isFirst ? search !== 'new' : search === 'long' && now >= overAt) return undefined;
  const waitMs = isFirst ? Math.min(NEW_SEARCH_MS, absentMs) : absentMs;
  const checkAgainAt = !isFirst && Number.isFinite(overAt) && now < overAt ? overAt : undefined;
  const isByKeys = keys !== undefined || undefined;
  return held('fleet/nobody-known', defined({ waitMs, isFirst, isByKeys }), 'event', defined({ checkAgainAt }));
}

/** `more` counts the other awaited nodes. `absent` and `out` are names, separated by commas. */
function nodeData({ name: node, release, isUnknown }: AwaitedNode, more: number, turn: Turn, view: FleetView) {
  const { phase, percent, reason, begun } = release ?? {};
  const [absent, out] = [turn.absent, turn.out].map((names) => names.join(', ') || undefined);
  const isAway = !isReached(node, view) || undefined;
  return defined({ node, more, phase, percent, reason, begun, isUnknown, isAway, absent, out });
}

/** While the API is away, nobody knows whether the Node was deleted. */
function isReached(node: string, { nodes, peers, apiTrouble }: FleetView): boolean {
  const known = nodes.find(({ name }) => name === node);
  if (known?.isSilent === true || known?.isAbsent === true) return false;
  return apiTrouble === undefined || peers.some(({ name, trouble }) => name === node && trouble === undefined);
}
