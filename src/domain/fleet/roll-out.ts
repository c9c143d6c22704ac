import { digestOf } from '../../platform/digest.ts';
import { hexOf } from '../model/digest.ts';
import {
  BY_NAME,
  CANARY_PLACE,
  isControlPlane,
  mostFailures,
  mostUnavailable,
  placeOf,
  type RollOutOrder,
  settleOf,
} from '../model/roll-out-order.ts';
import {
  type AwaitedNode,
  awaitedNode,
  hasGoneOn,
  isActivated,
  isBack,
  isInForce,
  isMoving,
  isReady,
  type TurnRelease,
} from './awaited-node.ts';
import type { FleetNode, FleetView, ReleaseStatus } from './node-status.ts';
import type { Place } from './progress.ts';
import { isProof, NO_SIGHTINGS, readyNodes, type Sighting, type Sightings, sightingKey } from './sightings.ts';

/** Why a node counts as unavailable. */
export type Unavailable = 'not-ready' | 'silent' | 'cordoned' | 'between';

/** Why a node counts as failed. */
export type Failure = 'rolled-back' | 'not-ready' | 'silent' | 'degraded';

/**
 * - `failed`: so many nodes failed, or a canary did, that a person has to decide;
 * - `no-canary`: no node that takes part has the labels of the canaries;
 * - `before`: the first node that has to activate first, or whose activation has to end;
 * - `settle`, `soak`: the first node, or canary, that has to run it well for longer, `leftMs` where
 *   time alone is lacking;
 * - `unavailable`: other nodes that are unavailable leave no room for one more.
 */
type Verdict =
  | { readonly kind: 'go' }
  | { readonly kind: 'failed'; readonly node: AwaitedNode; readonly why: Failure }
  | { readonly kind: 'no-canary'; readonly selector: string; readonly names: readonly string[] }
  | { readonly kind: 'not-ready'; readonly nodes: readonly [AwaitedNode, ...AwaitedNode[]] }
  | { readonly kind: 'before'; readonly node: AwaitedNode }
  | { readonly kind: 'settle' | 'soak'; readonly node: AwaitedNode; readonly forMs: number; readonly leftMs?: number }
  | { readonly kind: 'unavailable'; readonly node: AwaitedNode; readonly why: Unavailable; readonly most: number };

export type Turn = Verdict & {
  /** Names of silent nodes that nobody waits for. */
  readonly absent: readonly string[];
  /** The same of cordoned ones. */
  readonly out: readonly string[];
  /** All nodes that take part, with this one, the first to go first. */
  readonly line: readonly Place[];
};

/** What this node knows besides the reports of others. */
export interface OwnTurn {
  readonly sightings?: Sightings | undefined;
  /** Nodes that went back, and whose pause was lifted. */
  readonly lifted?: ReadonlySet<string>;
  /** Others may leave it out, so it waits for all of them. */
  readonly isLast?: boolean;
}

interface Member extends AwaitedNode {
  readonly isSelf: boolean;
  readonly isControlPlane: boolean;
  readonly place: number;
  /** Undefined while it is not known. */
  readonly isReady: boolean | undefined;
  readonly isSilent: boolean;
  readonly isAbsent: boolean;
  readonly isCordoned: boolean;
  /** An activation of this or another release of the stream has begun, and has not ended. */
  readonly isUnderWay: boolean;
  /** It ever reported something. */
  readonly hasReported: boolean;
  readonly sighting: Sighting | undefined;
  /** It proved the release, or no containers can show that, and it settled. */
  readonly hasProved: boolean;
  /** `past`: it has a later release; `none`: of the control plane, for another architecture. */
  readonly part: 'takes' | 'past' | 'none';
}

interface Stage {
  readonly member: Member;
  /** Those of a lower one go first. */
  readonly stage: number;
  readonly isCanary: boolean;
}

interface Question extends Required<Pick<OwnTurn, 'isLast'>> {
  readonly release: TurnRelease;
  readonly order: RollOutOrder;
  readonly isFirst: boolean;
  readonly failed: ReadonlyMap<Member, Failure>;
}

/** After an activation a node may reboot. One that is not `Ready` for so long counts as failed. */
const FAILED_MS = 5 * 60_000;

/**
 * The order of an activation in a cluster: all nodes load the images. Then the canaries activate,
 * then the groups one after the other, and in a group by name, while at most `maxUnavailable` nodes
 * of the stream are unavailable. All nodes compute the same order, so no lock is needed.
 *
 * INVARIANTS: what a node reports decides about itself only, and makes others wait. Labels, `Ready`
 * and cordons come from the Kubernetes API. How long a node has run the release well is measured on
 * this node.
 */
export function turnOf(
  release: TurnRelease,
  view: FleetView,
  order: RollOutOrder = BY_NAME,
  ownTurn: OwnTurn = {},
): Turn {
  const all = membersOf(release, view, order, ownTurn.sightings ?? NO_SIGHTINGS);
  const others = all.filter((one) => !one.isSelf && one.part === 'takes');
  const failed = failuresOf(others, ownTurn.lifted);
  const question = { release, order, failed, isLast: ownTurn.isLast === true, isFirst: isFirstInstall(release, view) };
  const members = others.filter((one) => failed.has(one) || !(isLeftOut(one) || (one.release && isBack(one.release))));
  const line = stagesOf([...all.filter((one) => one.isSelf), ...members], question);
  const shown = {
    absent: others.filter((one) => one.isAbsent && isLeftOut(one)).map(({ name }) => name),
    out: others.filter((one) => !one.isAbsent && isLeftOut(one)).map(({ name }) => name),
    line: line.map((stage) => shownPlace(stage, question)),
  };
  const [lagging, ...more] = members.filter((node) => !isReady(node) && !failed.has(node)).map(awaited);
  const verdict: Verdict =
    lagging === undefined
      ? (missingCanary(all, line, view, question) ?? turnInLine(line, all, question))
      : { kind: 'not-ready', nodes: [lagging, ...more] };
  const stop = stoppedBy(line, question);
  // Nothing runs yet that an order would protect, and it may need the release to become `Ready`.
  const goesUnready =
    question.isFirst && verdict.kind === 'go' && all.some((one) => one.isSelf && one.isReady === false);
  return { ...(stop === undefined || goesUnready ? verdict : stop), ...shown };
}

/** Whether no node runs a release of the stream yet: nobody soaks then. */
export function isFirstInstall({ name, bundleId, replaces }: TurnRelease, { self, nodes }: FleetView): boolean {
  const id = hexOf(bundleId).slice(0, 16);
  const isOther = (one: ReleaseStatus) => one.name === name && one.current === true && one.bundle !== id;
  return replaces === undefined && !nodes.some((node) => node.name !== self && node.status?.releases.some(isOther));
}

/** A canary that failed always stops the others. */
function stoppedBy(line: readonly Stage[], { failed, order }: Question): Verdict | undefined {
  const canary = line.find(({ member, isCanary }) => isCanary && failed.has(member))?.member;
  const [first] = failed.size >= mostFailures(order) ? failed.keys() : [];
  const member = canary ?? first;
  const why = member && failed.get(member);
  return member === undefined || why === undefined ? undefined : { kind: 'failed', node: awaited(member), why };
}

/** Nobody takes the place of canaries that a label chooses, except where a person let it fail. */
function missingCanary(
  all: readonly Member[],
  line: readonly Stage[],
  { removed = [] }: FleetView,
  { order, isFirst }: Question,
): Verdict | undefined {
  const selector = order.canary?.nodes;
  if (typeof selector !== 'string' || isFirst || line.some(({ isCanary }) => isCanary)) return undefined;
  const chosen = all.filter(({ place, part }) => place === CANARY_PLACE && part !== 'none');
  // Nobody knows the labels of a node that a person took out.
  if (chosen.length === 0 && removed.length > 0) return undefined;
  if (chosen.some(({ part, release }) => part === 'past' || (release !== undefined && isBack(release))))
    return undefined;
  return { kind: 'no-canary', selector, names: chosen.map(({ name }) => name) };
}

function turnInLine(line: readonly Stage[], all: readonly Member[], question: Question): Verdict {
  const at = line.findIndex(({ member }) => member.isSelf);
  const me = line[at];
  if (me === undefined) return { kind: 'go' };
  const earlier = line.find((one) => one.stage < me.stage && !isDone(one, question));
  if (earlier !== undefined) return waitFor(earlier, question);
  const group = line.filter(({ stage }) => stage === me.stage);
  const ahead = line.slice(0, at).filter((one) => one.stage === me.stage && !isDone(one, question));
  const unavailable = all.flatMap((member) => {
    const why = member.isSelf ? undefined : unavailability(member, question);
    return why === undefined ? [] : [{ member, why }];
  });
  // INVARIANT: two of a control plane are never down at once, or etcd loses its quorum.
  const peers = me.member.isControlPlane ? unavailable.filter(({ member }) => member.isControlPlane) : [];
  const used = unavailable.filter(({ member }) => member.hasReported && member.part !== 'none');
  const isUsed = ({ member }: Stage) => used.some((one) => one.member === member);
  const isUpgrade = question.release.replaces !== undefined;
  if (me.member.isReady === false && !(isUpgrade && peers.length > 0)) {
    // It is unavailable already, and may need the release to become `Ready`.
    const rival =
      ahead.find(({ member }) => member.isReady === false && !hasStalled(member)) ??
      line.find((one) => one !== me && isBetween(one.member, question) && !hasStalled(one.member));
    return rival === undefined ? { kind: 'go' } : waitFor(rival, question);
  }
  const most = mostUnavailable(question.order, group.length);
  const waiting = ahead.filter((one) => !isUsed(one));
  if (peers.length === 0 && used.length + waiting.length < most) return { kind: 'go' };
  const [next] = ahead;
  const nextWhy = used.find(({ member }) => member === next?.member)?.why;
  if (peers.length === 0 && next !== undefined && (nextWhy === undefined || nextWhy === 'between')) {
    return waitFor(next, question);
  }
  const [blocking] = peers.length > 0 ? peers : used;
  if (blocking === undefined) return { kind: 'go' };
  const { member, why } = blocking;
  const stage = line.find((one) => one.member === member);
  if (why === 'between' && stage !== undefined) return waitFor(stage, question);
  return { kind: 'unavailable', node: awaited(member), why, most: peers.length > 0 ? 1 : most };
}

function membersOf(
  release: TurnRelease,
  view: FleetView,
  order: RollOutOrder,
  sightings: Sightings,
): readonly Member[] {
  const ready = readyNodes(view);
  const isKnown = view.nodes.some(({ name }) => name === view.self);
  const nodes: readonly FleetNode[] = isKnown ? view.nodes : [...view.nodes, { name: view.self, isAbsent: false }];
  const inLine = nodes.toSorted((a, b) => byName(a.name, b.name));
  return inLine.flatMap((node): Member | Member[] => {
    const { name, facts, status } = node;
    const isSelf = name === view.self;
    const isOfControlPlane = isControlPlane(facts?.labels);
    const found = awaitedNode(node, release);
    if (found === undefined && !isSelf && !isOfControlPlane) return [];
    const sighting = found?.release && sightings.get(sightingKey(name, found.release.bundle));
    const hasSettled = found?.release?.runs === undefined && (sighting?.longestMs ?? -1) >= settleOf(order);
    return {
      name,
      ...found,
      isSelf,
      isControlPlane: isOfControlPlane,
      place: placeOf(order, facts?.labels ?? {}),
      isReady: ready.get(name),
      isSilent: node.isSilent === true,
      isAbsent: node.isAbsent,
      isCordoned: facts?.isCordoned === true,
      isUnderWay:
        status?.releases.some((one) => one.name === release.name && one.begun === true && !isBack(one)) === true,
      hasReported: status !== undefined,
      sighting,
      hasProved: found?.release?.phase === 'proven' || hasSettled,
      part: hasGoneOn(node, release) ? 'past' : found === undefined ? 'none' : 'takes',
    };
  });
}

/**
 * Silent for `fleet.absent`, or a worker that is cordoned and has not begun. Nodes of the control
 * plane that ever reported something are always waited for.
 */
function isLeftOut(member: Member): boolean {
  const { isControlPlane, isAbsent, isCordoned, hasReported, isUnderWay, release } = member;
  if (isControlPlane && hasReported) return false;
  const hasBegun = isUnderWay || (release !== undefined && (isActivated(release) || isMoving(release)));
  return isAbsent ? !hasFallenSilent(member) : isCordoned && !hasBegun;
}

/** It may have broken by the release. One that has proved it did not. */
function hasFallenSilent({ isAbsent, release, hasProved }: Member): boolean {
  if (!isAbsent || release === undefined) return false;
  return isMoving(release) || (isActivated(release) && !hasProved);
}

function failuresOf(others: readonly Member[], lifted: ReadonlySet<string> = new Set()): ReadonlyMap<Member, Failure> {
  return new Map(
    others.flatMap((member) => {
      const why = failureOf(member, lifted);
      return why === undefined ? [] : [[member, why] as const];
    }),
  );
}

function failureOf(member: Member, lifted: ReadonlySet<string>): Failure | undefined {
  const { name, release, sighting } = member;
  if (release === undefined) return undefined;
  if (isBack(release)) return release.back === true || lifted.has(name) ? undefined : 'rolled-back';
  if (hasFallenSilent(member)) return 'silent';
  if (!isInForce(release) || isLeftOut(member)) return undefined;
  if (sighting?.wasWell === true && isLongUnready(member) && !member.hasProved) return 'not-ready';
  return release.degraded === true ? 'degraded' : undefined;
}

function isLongUnready({ sighting }: Member): boolean {
  return (sighting?.illMs ?? 0) >= FAILED_MS;
}

/** It runs the release, and was not `Ready` for so long that nobody waits for its end any more. */
function hasStalled(member: Member): boolean {
  return member.release !== undefined && isActivated(member.release) && isLongUnready(member);
}

function stagesOf(members: readonly Member[], question: Question): readonly Stage[] {
  const canaries = canariesOf(members, question);
  const stageOf = (member: Member) => {
    if (member.isSelf && question.isLast) return Number.POSITIVE_INFINITY;
    return canaries.has(member) ? -1 : member.place;
  };
  return members
    .map((member) => ({ member, stage: stageOf(member), isCanary: canaries.has(member) }))
    .sort((a, b) => a.stage - b.stage || byName(a.member.name, b.member.name));
}

/**
 * By a hash of the bundle and the name of each node, so that no node can choose itself. Of the role
 * that comes first, which a node can't give itself either.
 */
function canariesOf(members: readonly Member[], { release, order }: Question): ReadonlySet<Member> {
  const { canary, controlPlane } = order;
  if (canary === undefined) return new Set();
  if (typeof canary.nodes === 'string') return new Set(members.filter(({ place }) => place === CANARY_PLACE));
  const role = (one: Member) => (controlPlane === 'with' || one.isControlPlane === (controlPlane === 'first') ? 0 : 1);
  const drawn = members.map((member) => ({ member, lot: digestOf(`${release.bundleId} ${member.name}`) }));
  drawn.sort((a, b) => role(a.member) - role(b.member) || byName(a.lot, b.lot));
  return new Set(drawn.slice(0, canary.nodes).map(({ member }) => member));
}

function unavailability(member: Member, question: Question): Unavailable | undefined {
  const { isControlPlane, isReady, isCordoned, isSilent, isAbsent, hasReported, release, part } = member;
  if (isLeftOut(member) && !isControlPlane) return undefined;
  if (isReady === false) return 'not-ready';
  const isActive = release !== undefined && part === 'takes' && isActivated(release);
  if (isCordoned && (isControlPlane || isActive)) return 'cordoned';
  if (hasReported && (isSilent || isAbsent)) return 'silent';
  return isBetween(member, question) ? 'between' : undefined;
}

/** Under way: its activation has begun, and it has not run the release well for `settle`. */
function isBetween({ release, sighting, part, isSelf, isUnderWay }: Member, { order }: Question): boolean {
  if (part === 'none' || isSelf) return false;
  if (isUnderWay || release === undefined || part !== 'takes') return isUnderWay;
  return isMoving(release) || (isActivated(release) && (sighting?.wellMs ?? 0) < settleOf(order));
}

/** Failures that the order allows keep nobody waiting. */
function isDone(stage: Stage, question: Question): boolean {
  return isFinished(stage, question) || (!stage.isCanary && question.failed.has(stage.member));
}

function isFinished({ member, isCanary }: Stage, question: Question): boolean {
  const { release, sighting } = member;
  if (release === undefined || !isActivated(release)) return false;
  const isSettled = (sighting?.wellMs ?? 0) >= neededMs(isCanary, question);
  return hasReached(member, release, isCanary, question) && (member.isSelf ? isProof(release) : isSettled);
}

/** Where nothing is known of its kubelet, only evidence of containers counts. */
function hasReached({ isReady }: Member, release: ReleaseStatus, isCanary: boolean, question: Question): boolean {
  const { order, isFirst } = question;
  const needsProof = order.done === 'proven' || (!isFirst && (isCanary || isReady === undefined));
  return !needsProof || isProof(release);
}

function neededMs(isCanary: boolean, { order, isFirst }: Question): number {
  return Math.max(settleOf(order), isCanary && !isFirst ? (order.canary?.soakMs ?? 0) : 0);
}

function waitFor({ member, isCanary }: Stage, question: Question): Verdict {
  const node = awaited(member);
  const { release, sighting } = member;
  if (release === undefined || !isActivated(release)) return { kind: 'before', node };
  if (member.isReady === false) return { kind: 'unavailable', node, why: 'not-ready', most: 1 };
  const forMs = neededMs(isCanary, question);
  const kind = isCanary ? 'soak' : 'settle';
  if (!hasReached(member, release, isCanary, question)) return { kind, node, forMs };
  return { kind, node, forMs, leftMs: Math.max(0, forMs - (sighting?.wellMs ?? 0)) };
}

function shownPlace(stage: Stage, question: Question): Place {
  const { member, isCanary } = stage;
  const { name, release } = member;
  const place = { name, isCanary };
  if (question.failed.has(member)) return { ...place, state: 'failed' };
  if (isFinished(stage, question)) return { ...place, state: 'done' };
  if (release !== undefined && isActivated(release)) {
    const wait = waitFor(stage, question);
    return { ...place, state: 'settles', ...(!member.isSelf && 'leftMs' in wait && { leftMs: wait.leftMs }) };
  }
  if (release !== undefined && isMoving(release)) return { ...place, state: 'between' };
  return { ...place, state: isReady(member) || member.isSelf ? 'waits' : 'loads' };
}

function awaited({ name, release, isUnknown }: Member): AwaitedNode {
  return { name, ...(release && { release }), ...(isUnknown && { isUnknown }) };
}

/** Compares code units, so that every node sorts alike. */
function byName(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
