import { digestOf } from '../../platform/digest.ts';
import {
  BY_NAME,
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
  isMoving,
  isReady,
  type TurnRelease,
} from './awaited-node.ts';
import type { FleetNode, FleetView, ReleaseStatus } from './node-status.ts';
import { NO_SIGHTINGS, readyNodes, type Sighting, type Sightings, sightingKey } from './sightings.ts';

/** Why a node counts as unavailable. */
export type Unavailable = 'not-ready' | 'silent' | 'cordoned' | 'between';

/** Why a node counts as failed. */
export type Failure = 'rolled-back' | 'not-ready' | 'silent' | 'degraded';

/**
 * - `failed`: so many nodes failed that a person has to decide;
 * - `before`: the first node that has to activate first, or whose activation has to end;
 * - `settle`, `soak`: the first node, or canary, that has to run it well for longer, `leftMs` where
 *   time alone is lacking;
 * - `unavailable`: other nodes that are unavailable leave no room for one more.
 */
type Verdict =
  | { readonly kind: 'go' }
  | { readonly kind: 'failed'; readonly node: AwaitedNode; readonly why: Failure }
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

export interface Place {
  readonly name: string;
  readonly isCanary: boolean;
  readonly state: 'done' | 'settles' | 'between' | 'waits' | 'failed' | 'loads';
  /** Until it counts as done, where time alone is lacking. */
  readonly leftMs?: number;
}

/** What this node knows besides the reports of others. */
export interface OwnTurn {
  readonly sightings?: Sightings | undefined;
  /** Of this machine, in milliseconds. */
  readonly uptimeMs?: number;
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
  /** It ever reported something. */
  readonly hasReported: boolean;
  readonly sighting: Sighting | undefined;
  /** It does not activate the release: only whether it is available matters. */
  readonly isBystander: boolean;
}

interface Stage {
  readonly member: Member;
  /** Those of a lower one go first. */
  readonly stage: number;
  readonly isCanary: boolean;
}

interface Question extends Required<Pick<OwnTurn, 'uptimeMs' | 'isLast'>> {
  readonly release: TurnRelease;
  readonly order: RollOutOrder;
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
export function turnOf(release: TurnRelease, view: FleetView, order: RollOutOrder = BY_NAME, own: OwnTurn = {}): Turn {
  const question = { release, order, uptimeMs: own.uptimeMs ?? 0, isLast: own.isLast === true };
  const all = membersOf(release, view, order, own.sightings ?? NO_SIGHTINGS);
  const others = all.filter((one) => !one.isSelf && !one.isBystander);
  const members = others.filter((one) => !isLeftOut(one) && !(one.release && isBack(one.release)));
  const failed = failuresOf(others, question, own.lifted);
  const line = stagesOf([...all.filter((one) => one.isSelf), ...members], question);
  const shown = {
    absent: others.filter((one) => one.isAbsent && isLeftOut(one)).map(({ name }) => name),
    out: others.filter((one) => !one.isAbsent && isLeftOut(one)).map(({ name }) => name),
    line: line.map((stage) => shownPlace(stage, failed, question)),
  };
  const [first] = failed;
  if (first !== undefined && failed.length >= mostFailures(order)) {
    return { kind: 'failed', node: awaited(first.member), why: first.why, ...shown };
  }
  const [lagging, ...more] = members.filter((node) => !isReady(node)).map(awaited);
  if (lagging !== undefined) return { kind: 'not-ready', nodes: [lagging, ...more], ...shown };
  return { ...turnInLine(line, all, question), ...shown };
}

function turnInLine(line: readonly Stage[], all: readonly Member[], question: Question): Verdict {
  const at = line.findIndex(({ member }) => member.isSelf);
  const me = line[at];
  if (me === undefined) return { kind: 'go' };
  const earlier = line.find((one) => one.stage < me.stage && !isFinished(one, question));
  if (earlier !== undefined) return waitFor(earlier, question);
  const group = line.filter(({ stage }) => stage === me.stage);
  const ahead = line.slice(0, at).filter((one) => one.stage === me.stage && !isFinished(one, question));
  const used = all.flatMap((member) => {
    const why = member.isSelf ? undefined : unavailability(member, question);
    return why === undefined ? [] : [{ member, why }];
  });
  const isUsed = ({ member }: Stage) => used.some((one) => one.member === member);
  // INVARIANT: two of a control plane are never down at once, or etcd loses its quorum.
  const peers = me.member.isControlPlane ? used.filter(({ member }) => member.isControlPlane) : [];
  const isUpgrade = question.release.replaces !== undefined;
  if (me.member.isReady === false && !(isUpgrade && peers.length > 0)) {
    // It is unavailable already, and may need the release to become `Ready`.
    const rival =
      ahead.find(({ member }) => member.isReady === false) ??
      line.find((one) => one !== me && isBetween(one.member, question));
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
      hasReported: status !== undefined,
      sighting: found?.release && sightings.get(sightingKey(name, found.release.bundle)),
      isBystander: found === undefined || hasGoneOn(node, release),
    };
  });
}

/**
 * Silent for `fleet.absent`, or a worker that is cordoned and has not begun. Nodes of the control
 * plane that ever reported something are always waited for.
 */
function isLeftOut(member: Member): boolean {
  const { isControlPlane, isAbsent, isCordoned, hasReported, release } = member;
  if (isControlPlane && hasReported) return false;
  const hasBegun = release !== undefined && (isActivated(release) || isMoving(release));
  return isAbsent ? !hasFallenSilent(member) : isCordoned && !hasBegun;
}

/** It may have broken by the release. One that has proved it did not. */
function hasFallenSilent({ isAbsent, release }: Member): boolean {
  if (!isAbsent || release === undefined) return false;
  return isMoving(release) || (isActivated(release) && release.phase !== 'proven');
}

interface FailedMember {
  readonly member: Member;
  readonly why: Failure;
}

function failuresOf(
  others: readonly Member[],
  question: Question,
  lifted: ReadonlySet<string> = new Set(),
): readonly FailedMember[] {
  return others.flatMap((member): FailedMember | FailedMember[] => {
    const why = failureOf(member, question, lifted);
    return why === undefined ? [] : { member, why };
  });
}

function failureOf(member: Member, { uptimeMs }: Question, lifted: ReadonlySet<string>): Failure | undefined {
  const { name, release, sighting } = member;
  if (release === undefined) return undefined;
  if (isBack(release)) return release.back === true || lifted.has(name) ? undefined : 'rolled-back';
  if (hasFallenSilent(member)) return 'silent';
  if (!isActivated(release) || isLeftOut(member)) return undefined;
  if (sighting?.kind === 'ill' && uptimeMs - sighting.sinceMs >= FAILED_MS) return 'not-ready';
  return release.degraded === true ? 'degraded' : undefined;
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
  if (typeof canary.nodes === 'string') return new Set(members.filter(({ place }) => place === 0));
  const role = (one: Member) => (controlPlane === 'with' || one.isControlPlane === (controlPlane === 'first') ? 0 : 1);
  const drawn = members.map((member) => ({ member, lot: digestOf(`${release.bundleId} ${member.name}`) }));
  drawn.sort((a, b) => role(a.member) - role(b.member) || byName(a.lot, b.lot));
  return new Set(drawn.slice(0, canary.nodes).map(({ member }) => member));
}

function unavailability(member: Member, question: Question): Unavailable | undefined {
  const { isControlPlane, isReady, isCordoned, isSilent, isAbsent, hasReported, release } = member;
  if (isLeftOut(member) && !isControlPlane) return undefined;
  if (isReady === false) return 'not-ready';
  const isActive = release !== undefined && !member.isBystander && isActivated(release);
  if (isCordoned && (isControlPlane || isActive)) return 'cordoned';
  if (hasReported && (isSilent || isAbsent)) return 'silent';
  return isBetween(member, question) ? 'between' : undefined;
}

/** Under way: its activation has begun, and it has not run the release well for `settle`. */
function isBetween({ release, sighting, isBystander, ...member }: Member, { order, uptimeMs }: Question): boolean {
  if (release === undefined || isBystander || member.isSelf) return false;
  return isMoving(release) || (isActivated(release) && wellMs(sighting, uptimeMs) < settleOf(order));
}

function wellMs(sighting: Sighting | undefined, uptimeMs: number): number {
  return sighting?.kind === 'well' ? uptimeMs - sighting.sinceMs : 0;
}

function isFinished({ member, isCanary }: Stage, question: Question): boolean {
  const { release, sighting } = member;
  if (release === undefined || !isActivated(release)) return false;
  return (
    hasReached(member, release, isCanary, question) &&
    wellMs(sighting, question.uptimeMs) >= neededMs(isCanary, question)
  );
}

/** Where nothing is known of its kubelet, only evidence of containers counts. */
function hasReached({ isReady }: Member, release: ReleaseStatus, isCanary: boolean, { order }: Question): boolean {
  const needsProof = isCanary || order.done === 'proven' || isReady === undefined;
  return !needsProof || release.phase === 'proven' || release.runs === undefined;
}

function neededMs(isCanary: boolean, { order }: Question): number {
  return Math.max(settleOf(order), isCanary ? (order.canary?.soakMs ?? 0) : 0);
}

function waitFor({ member, isCanary }: Stage, question: Question): Verdict {
  const node = awaited(member);
  const { release, sighting } = member;
  if (release === undefined || !isActivated(release)) return { kind: 'before', node };
  if (member.isReady === false) return { kind: 'unavailable', node, why: 'not-ready', most: 1 };
  const forMs = neededMs(isCanary, question);
  const kind = isCanary ? 'soak' : 'settle';
  if (!hasReached(member, release, isCanary, question)) return { kind, node, forMs };
  return { kind, node, forMs, leftMs: Math.max(0, forMs - wellMs(sighting, question.uptimeMs)) };
}

function shownPlace(stage: Stage, failed: readonly FailedMember[], question: Question): Place {
  const { member, isCanary } = stage;
  const { name, release } = member;
  const place = { name, isCanary };
  if (failed.some((one) => one.member === member)) return { ...place, state: 'failed' };
  if (isFinished(stage, question)) return { ...place, state: 'done' };
  if (release !== undefined && isActivated(release) && !member.isSelf) {
    const wait = waitFor(stage, question);
    return { ...place, state: 'settles', ...('leftMs' in wait && { leftMs: wait.leftMs }) };
  }
  if (release !== undefined && isMoving(release)) return { ...place, state: 'between' };
  return { ...place, state: isReady(member) || member.isSelf ? 'waits' : 'loads' };
}

function awaited({ name, release, isUnknown }: Member): AwaitedNode {
  return { name, ...(release && { release }), ...(isUnknown && { isUnknown }) };
}

/** By code units, so that every node sorts alike. */
function byName(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
