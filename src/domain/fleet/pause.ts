import * as v from 'valibot';
import { digestOf } from '../../platform/digest.ts';
import { plainDocument } from '../../platform/plain-text.ts';
import { maybe, type Parsed } from '../../platform/schema.ts';
import { hexOf } from '../model/digest.ts';
import { isControlPlane, type Labels } from '../model/roll-out-order.ts';

/** Default of `stickpin fleet pause --for`. */
export const PAUSE_MS = 4 * 3_600_000;

/** A longer pause is cut. */
export const LONGEST_PAUSE_MS = 7 * 24 * 3_600_000;

/** In characters. */
export const MOST_WHY = 100;

/** On all nodes; a peer names no more. */
export const MOST_PAUSES = 64;

/**
 * Said on one node, with lifted ones. Another node takes no more from it, with those that it passes
 * on.
 */
export const MOST_OF_NODE = 8;

/**
 * In the name of one node, by all that pass them on: more than one of them can make up, so that it
 * keeps no other from passing on what was said.
 */
const MOST_PASSED_ON = 2 * MOST_OF_NODE;

/** A pause stays known for so long, so that a node says {@link MOST_OF_NODE} in this time. */
const LEAST_KEPT_MS = 3_600_000;

/** A pause that ends sooner is not taken any more: each one is written to the disk. */
const LEAST_MS = 60_000;

/** Clocks of nodes differ by less. */
const AHEAD_MS = 24 * 3_600_000;

const shortText = (most: number) => v.pipe(v.string(), v.minLength(1), v.maxLength(most));
const time = v.pipe(v.string(), v.isoTimestamp());

/** A roll-out that stands still: nodes that hear of it begin no activation. */
export const pause = v.object({
  id: v.pipe(v.string(), v.regex(/^[0-9a-f]{12}$/)),
  name: shortText(63),
  version: maybe(shortText(253), 'Absent: all versions.'),
  node: shortText(253),
  by: shortText(63),
  why: shortText(MOST_WHY),
  at: time,
  until: time,
  lifted: maybe(v.object({ node: shortText(253), by: shortText(63) }), 'Who lifted it.'),
});

export type SharedPause = Parsed<typeof pause>;

/** What a node keeps of a pause. */
export const keptPause = v.object({
  ...pause.entries,
  from: maybe(
    v.string(),
    'The node whose certificate brought it; absent where it was said on this node. Another one than `node` only passed it on.',
  ),
  liftedFrom: maybe(v.string(), 'The node whose certificate brought the lift; absent where this node lifted it.'),
  heard: maybe(
    v.object({ at: time, clockSynchronised: v.boolean() }),
    'When this node heard of it, by its own clock: it lasts no longer than its length from then on.',
  ),
});

export type Pause = Parsed<typeof keptPause>;

interface NewPause extends Pick<Pause, 'name' | 'version' | 'node' | 'by' | 'why'> {
  readonly atMs: number;
  readonly forMs: number;
  /** Default `atMs`. */
  readonly causeMs?: number;
}

/** The same id for the same values: what begins a pause automatically does so once. */
export function newPause({ atMs, forMs, causeMs = atMs, ...content }: NewPause): Pause {
  const [cause, at = '', until = ''] = [causeMs, atMs, atMs + forMs].map((ms) => new Date(ms).toISOString());
  const { node, name, version, by, why } = content;
  const id = hexOf(digestOf(JSON.stringify([node, name, version, by, why, cause]))).slice(0, 12);
  return { ...content, id, at, until };
}

/** On this node, in milliseconds since the epoch: the clock of the other one may be ahead. */
export function endOf({ heard, ...pause }: Pause): number {
  const endMs = statedEndOf(pause);
  return heard === undefined ? endMs : Math.min(endMs, Date.parse(heard.at) + endMs - Date.parse(pause.at));
}

function statedEndOf({ at, until }: Pause): number {
  return Math.min(Date.parse(until), Date.parse(at) + LONGEST_PAUSE_MS);
}

/** This node measures pauses by its own clock. */
export interface PauseClock {
  readonly now: number;
  readonly clockSynchronised: boolean;
}

/** A lost lift, a clock that is set back or that is wrong makes a pause longer, not shorter. */
export function isLasting(one: Pause, clock: PauseClock): boolean {
  return endOf(one) > clock.now && !isOfFuture(one, clock);
}

/** What is over on this node is not heard again while another node may say it. */
function isKept(one: Pause, clock: PauseClock): boolean {
  if (isOfFuture(one, clock)) return false;
  return statedEndOf(one) > clock.now || Date.parse((one.heard ?? one).at) + LEAST_KEPT_MS > clock.now;
}

function isOfFuture({ at }: SharedPause, { now, clockSynchronised }: PauseClock): boolean {
  return clockSynchronised && Date.parse(at) > now + AHEAD_MS;
}

/**
 * What holds a release now. `pauses`: those that last. The one that ends last, since a person may
 * lift it.
 */
export function pauseOf(
  { name, version }: { readonly name: string; readonly version: string },
  pauses: readonly Pause[],
  clock: PauseClock,
): Pause | undefined {
  return pauses
    .filter((one) => one.name === name && (one.version ?? version) === version)
    .filter((one) => one.lifted === undefined && isLasting(one, clock))
    .toSorted((a, b) => endOf(b) - endOf(a))[0];
}

/** The part of the view of the fleet that has pauses. */
interface HeardNodes {
  readonly self: string;
  readonly removed?: readonly string[];
  readonly nodes: readonly {
    readonly name: string;
    readonly status?: { readonly pauses?: readonly SharedPause[] };
    readonly facts?: { readonly labels: Labels };
  }[];
}

/**
 * Returns `known` itself where nothing changes.
 *
 * INVARIANTS: a pause counts under the name of the node whose certificate brought it. What a node
 * passes on of another one makes this node wait, and is shown as passed on. A pause is lifted by
 * the node on which it was said, or by one of the control plane, which each say so themselves.
 * What one node may add is bounded.
 *
 * @param kept ids of pauses of this node that stay known when they have ended
 */
export function heardPauses(
  known: readonly Pause[],
  view: HeardNodes | undefined,
  clock: PauseClock,
  kept: ReadonlySet<string> = new Set(),
): readonly Pause[] {
  const isRemoved = (node = '') => view?.removed?.includes(node) === true;
  const stays = (one: Pause) =>
    !isRemoved(one.from) &&
    !(isRemoved(one.node) && !isOwn(one)) &&
    (isKept(one, clock) || (isOwn(one) && kept.has(one.id) && !isOfFuture(one, clock)));
  const pauses = new Map(known.filter(stays).map((one) => [contentOf(one), heardAgain(one, clock)]));
  let isChanged = pauses.size < known.length || known.some((one) => pauses.get(contentOf(one)) !== one);
  for (const { name: from, status, facts } of view?.nodes ?? []) {
    if (from === view?.self || isRemoved(from)) continue;
    for (const shared of plainDocument(status?.pauses ?? [])) {
      if (isRemoved(shared.node)) continue;
      const before = pauses.get(contentOf(shared));
      const lift = mayLift(shared, from, facts?.labels) ? shared.lifted : undefined;
      if (before === undefined) {
        // Whoever says that it is over gives no reason to wait.
        const isOver = shared.lifted !== undefined && lift === undefined;
        if (isOver || !isWorthHearing(shared, clock)) continue;
        isChanged = take(pauses, newlyHeard(shared, from, clock)) || isChanged;
      } else {
        const next = heardFrom(before, from, lift);
        pauses.set(contentOf(shared), next);
        isChanged ||= next !== before;
      }
    }
  }
  return isChanged ? [...pauses.values()] : known;
}

/** Whole, so that no other pause is taken for it. */
export function contentOf({ id, name, version, node, by, why, at, until }: SharedPause): string {
  return JSON.stringify([id, name, version, node, by, why, at, until]);
}

/** Whether a lift on this node counts on all nodes. @param labels of its Node */
export function mayLift({ node }: SharedPause, on: string, labels: Labels | undefined): boolean {
  return node === on || isControlPlane(labels);
}

function isWorthHearing(pause: SharedPause, clock: PauseClock): boolean {
  return statedEndOf(pause) > clock.now + LEAST_MS && !isOfFuture(pause, clock);
}

function newlyHeard(pause: SharedPause, from: string, { now, clockSynchronised }: PauseClock): Pause {
  const heard = { at: new Date(now).toISOString(), clockSynchronised };
  return { ...pause, from, heard, ...(pause.lifted && { liftedFrom: from }) };
}

/** A node also lifts what others made up in its name: that does not make it first-hand. */
function heardFrom(before: Pause, from: string, lift: SharedPause['lifted']): Pause {
  if (lift === undefined) return isFirstHand(before) || from !== before.node ? before : { ...before, from };
  return before.lifted !== undefined ? before : { ...before, lifted: lift, liftedFrom: from };
}

/** Once the own clock is right: what it measured before may be wrong by years. */
function heardAgain(one: Pause, { now, clockSynchronised }: PauseClock): Pause {
  if (one.heard === undefined || one.heard.clockSynchronised || !clockSynchronised) return one;
  return { ...one, heard: { at: new Date(now).toISOString(), clockSynchronised } };
}

/** Takes the place of one that was passed on where there is no other. False: it was not taken. */
function take(pauses: Map<string, Pause>, next: Pause): boolean {
  const all = [...pauses.values()];
  const ofPeer = all.filter(({ from }) => from === next.from);
  const isFull = ofPeer.length >= MOST_OF_NODE;
  const passedOn = all.filter((one) => !isFirstHand(one));
  if (!isFirstHand(next)) {
    const ofNode = passedOn.filter(({ node }) => node === next.node);
    if (isFull || all.length >= MOST_PAUSES || ofNode.length >= MOST_PASSED_ON) return false;
  } else if (isFull || all.length >= MOST_PAUSES) {
    const out = passedOn.find(({ from }) => !isFull || from === next.from);
    if (out === undefined) return false;
    pauses.delete(contentOf(out));
  }
  pauses.set(contentOf(next), next);
  return true;
}

/** Said on this node. */
export function isOwn({ from }: Pause): boolean {
  return from === undefined;
}

/** The node on which it was said has said so itself. */
export function isFirstHand({ from = '', node }: Pick<Pause, 'from' | 'node'>): boolean {
  return from === '' || from === node;
}

function isLiftedHere({ lifted, liftedFrom }: Pause): boolean {
  return lifted !== undefined && liftedFrom === undefined;
}

/** Into its own Node each node writes these. */
export function isSaidHere(one: Pause): boolean {
  return isOwn(one) || isLiftedHere(one);
}

/** On the wire a node also names what other nodes said to it themselves, and nothing else. */
export function isPassedOn(one: Pause): boolean {
  return isFirstHand(one) || isLiftedHere(one);
}
