import type { Phase } from '../model/condition.ts';
import { type BundleId, hexOf } from '../model/digest.ts';
import type { Reason } from '../model/reason.ts';
import { BY_NAME, MOST_PLACES, mostUnavailable, needsLabels, type RollOutOrder } from '../model/roll-out-order.ts';
import { compareVersions, fitsScheme, schemeOf, type VersionScheme } from '../model/version.ts';
import {
  type FleetNode,
  type FleetView,
  isCut,
  type LeftOut,
  type NodeStatus,
  type ReleaseStatus,
} from './node-status.ts';

export interface TurnRelease {
  readonly bundleId: BundleId;
  readonly name: string;
  readonly version: string;
  /** GOARCH. */
  readonly arch: string;
  /** Undefined while its versions fit both. */
  readonly scheme: VersionScheme | undefined;
  /** The version that it replaces on this node; absent for the first of its stream. */
  readonly replaces?: string | undefined;
}

export interface AwaitedNode {
  readonly name: string;
  /** Absent when the node lacks the release, or that is not known. */
  readonly release?: ReleaseStatus;
  /** It has more releases than it reported. */
  readonly isUnknown?: true;
}

/**
 * `before`: the first node that has to activate first, or whose activation has to end. `soak`: the
 * first canary that has to run it for longer.
 */
export type Turn = (
  | { readonly kind: 'go' }
  | { readonly kind: 'rolled-back'; readonly node: AwaitedNode }
  | { readonly kind: 'not-ready'; readonly nodes: readonly [AwaitedNode, ...AwaitedNode[]] }
  | { readonly kind: 'before' | 'soak'; readonly node: AwaitedNode }
) &
  LeftOutNodes;

/** Names of nodes that nobody waits for. */
interface LeftOutNodes {
  /** Silent. */
  readonly absent: readonly string[];
  readonly out: readonly string[];
}

/** What this node knows of itself. */
export interface OwnTurn {
  /** Undefined while it does not know its labels. */
  readonly place?: number | undefined;
  readonly out?: LeftOut | undefined;
  /** Nodes that went back, and whose pause a person lifted. */
  readonly lifted?: ReadonlySet<string>;
}

interface Member extends AwaitedNode {
  readonly place: number;
  readonly isOut: boolean;
  readonly state?: LeftOut | undefined;
}

interface Stage {
  readonly member: Member;
  readonly stage: number;
  readonly isCanary: boolean;
}

const ACTIVATED: ReadonlySet<Phase> = new Set(['activated', 'active', 'proven']);

/**
 * The order of an activation in a cluster: all nodes load the images. Then the groups activate one
 * after the other, and in a group by name, at most `maxUnavailable` at the same time. A node is
 * done when it has activated and, where containers show it, runs the release. All nodes compute the
 * same order, so no lock is needed: an old report only makes a node wait longer. A node that went
 * back stops the others until its pause is over; one of an older stickpin stops them for good.
 */
export function turnOf(
  release: TurnRelease,
  { self, nodes }: FleetView,
  order: RollOutOrder = BY_NAME,
  own: OwnTurn = {},
): Turn {
  const others = nodes.filter(({ name }) => name !== self).sort((a, b) => byName(a.name, b.name));
  const isSilent = (node: FleetNode) => node.isAbsent && !isSilentCanary(node, release, order);
  const absent = others.filter(isSilent).map(({ name }) => name);
  const members = others
    .filter((node) => !isSilent(node) && !hasGoneOn(node, release))
    .flatMap((node) => memberOf(node, release, order) ?? [])
    .filter(({ name, release }) => release?.back !== true && own.lifted?.has(name) !== true);
  const out = members.filter(({ isOut }) => isOut).map(({ name }) => name);
  const leftOut = { absent, out };
  const back = members.find((node) => node.release !== undefined && isBack(node.release));
  if (back !== undefined) return { kind: 'rolled-back', node: awaited(back), ...leftOut };
  const [lagging, ...more] = members.filter((node) => !isReady(node) && !node.isOut).map(awaited);
  if (lagging !== undefined) return { kind: 'not-ready', nodes: [lagging, ...more], ...leftOut };
  const me = { name: self, place: placeIn(order, own.place), isOut: own.out !== undefined };
  // It comes behind all nodes that take part; a cordoned one may stay so for ever.
  const ahead = me.isOut ? members.filter(({ isOut, state }) => !(isOut && state === 'cordoned')) : members;
  return { ...turnInLine(me, stagesOf([...ahead, me], order), order), ...leftOut };
}

function turnInLine(me: Member, line: readonly Stage[], order: RollOutOrder) {
  const at = line.findIndex(({ member }) => member === me);
  const own = line[at]?.stage ?? 0;
  const earlier = line.find((one) => one.stage < own && !isFinished(one));
  if (earlier !== undefined) {
    const kind = isActivated(earlier.member) ? 'soak' : 'before';
    return { kind, node: awaited(earlier.member) } as const;
  }
  const group = line.filter(({ stage }) => stage === own);
  const ahead = line.slice(0, at).filter(({ stage, member }) => stage === own && !isActivated(member));
  // A node that comes back to the order waits for the activations that have begun without it.
  const behind = line.slice(at + 1).filter(({ member }) => isMoving(member));
  const [first, ...others] = [...ahead, ...behind];
  const hasSlot = first === undefined || others.length + 1 < mostUnavailable(order, group.length);
  return hasSlot ? ({ kind: 'go' } as const) : ({ kind: 'before', node: awaited(first.member) } as const);
}

/** Behind all places of nodes that take part. */
const OUT = 2 * MOST_PLACES;

function stagesOf(members: readonly Member[], { canary }: RollOutOrder): readonly Stage[] {
  const rank = ({ place, isOut }: Member) => place + (isOut ? OUT : 0);
  const line = members.toSorted((a, b) => rank(a) - rank(b) || byName(a.name, b.name));
  return line.map((member, at) => {
    const isAmongFirst = typeof canary?.nodes === 'number' && at < canary.nodes && !member.isOut;
    const isCanary = isAmongFirst || (typeof canary?.nodes === 'string' && member.place === 0);
    return { member, stage: isAmongFirst ? -1 : rank(member), isCanary };
  });
}

function isFinished({ member, isCanary }: Stage): boolean {
  if (!isActivated(member)) return false;
  return !isCanary || (member.release?.soaked === true && member.state !== 'not-ready');
}

/** One that fell silent with the release in force may have broken by it: the rest waits for it. */
function isSilentCanary(node: FleetNode, release: TurnRelease, { canary }: RollOutOrder): boolean {
  const found = canary === undefined ? undefined : awaitedNode(node, release);
  return found !== undefined && isActivated(found);
}

function memberOf(node: FleetNode, release: TurnRelease, order: RollOutOrder): Member | undefined {
  const found = awaitedNode(node, release);
  if (found === undefined) return undefined;
  const state = node.status?.out;
  const isOut = state !== undefined && !isActivated(found) && !isMoving(found);
  return { ...found, place: placeIn(order, found.release?.place), isOut, state };
}

function placeIn(order: RollOutOrder, place: number | undefined): number {
  return needsLabels(order) ? (place ?? MOST_PLACES) : 1;
}

function awaited({ place: _, isOut: __, state: ___, ...node }: Member): AwaitedNode {
  return node;
}

/** Its activation is due or has begun, and has not ended. */
function isMoving({ release }: AwaitedNode): boolean {
  if (release === undefined || isBack(release)) return false;
  return release.begun === true || (release.current === true && release.runs === false);
}

export function isCounted(node: FleetNode, release: TurnRelease): boolean {
  return !node.isAbsent && !hasGoneOn(node, release);
}

export function isMadeFor({ status }: FleetNode, { arch }: TurnRelease): boolean {
  return status?.arch === undefined || status.arch === arch;
}

/**
 * After a downgrade versions show nothing: all nodes of the architecture have a later one before.
 */
function hasGoneOn({ status }: FleetNode, release: TurnRelease): boolean {
  const { version, replaces, scheme } = release;
  const isDowngrade = replaces !== undefined && isLater(replaces, version, scheme);
  return !isDowngrade && isPast(status, release);
}

/** Undefined for a node of another architecture, which never loads the bundle. */
export function awaitedNode(node: FleetNode, wanted: TurnRelease): AwaitedNode | undefined {
  const { name, status } = node;
  const isOther = !isMadeFor(node, wanted);
  const id = hexOf(wanted.bundleId).slice(0, 16);
  const release = status?.releases.find((one) => (isOther ? isSameRelease(one, wanted) : one.bundle === id));
  if (release !== undefined) return { name, release };
  return isOther ? undefined : { name, ...(isCut(status) && { isUnknown: true }) };
}

/** Also for another architecture: both follow one order. */
function isSameRelease({ name, version, phase }: ReleaseStatus, wanted: TurnRelease): boolean {
  return name === wanted.name && version === wanted.version && phase !== 'retired' && phase !== 'rejected';
}

export function isReady({ release }: AwaitedNode): boolean {
  return release !== undefined && isLoaded(release);
}

function isActivated({ release }: AwaitedNode): boolean {
  return release !== undefined && ACTIVATED.has(release.phase) && isInForce(release) && release.runs !== false;
}

/** By code units, so that every node sorts alike. */
function byName(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

const ROLLED_BACK = 'engine/rolled-back' satisfies Reason['code'];

function isBack({ reason }: Pick<ReleaseStatus, 'reason'>): boolean {
  return reason === ROLLED_BACK;
}

/** Whether the tags of a release are in force and stay. The phase does not show a rollback. */
export function isInForce(release: Pick<ReleaseStatus, 'current' | 'reason'>): boolean {
  return release.current === true && !isBack(release);
}

const LOADED: ReadonlySet<Phase> = new Set(['ready', 'activated', 'active', 'proven', 'superseded']);

/** Not `retired`: a release that never became complete is retired too. */
export function isLoaded({ phase, incomplete }: Pick<ReleaseStatus, 'phase' | 'incomplete'>): boolean {
  return LOADED.has(phase) && incomplete !== true;
}

interface StreamVersion {
  readonly name: string;
  readonly version: string;
  readonly scheme?: VersionScheme | undefined;
}

export function isPast(status: NodeStatus | undefined, { name, version, scheme }: StreamVersion): boolean {
  const current = status?.releases.find((one) => one.name === name && one.current === true);
  return current !== undefined && isLater(current.version, version, scheme);
}

/** False when unknown. */
function isLater(version: string, than: string, scheme: VersionScheme | undefined): boolean {
  const way = scheme ?? schemeOf([{ version }, { version: than }]) ?? 'semver';
  return fitsScheme(version, way) && fitsScheme(than, way) && compareVersions(version, than, way) > 0;
}
