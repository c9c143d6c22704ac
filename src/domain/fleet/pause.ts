import * as v from 'valibot';
import { digestOf } from '../../platform/digest.ts';
import { plainDocument } from '../../platform/plain-text.ts';
import { maybe, type Parsed } from '../../platform/schema.ts';
import { hexOf } from '../model/digest.ts';

/** Default of `stickpin fleet pause --for`. */
export const PAUSE_MS = 4 * 3_600_000;

/** A longer pause is cut. */
export const LONGEST_PAUSE_MS = 7 * 24 * 3_600_000;

/** In characters. */
export const MOST_WHY = 100;

/** On all nodes; a peer names no more. */
export const MOST_PAUSES = 64;

/** That a node takes from one other node: its own, and those that it heard. */
const MOST_OF_PEER = 8;

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

/** As a node keeps it. */
export const keptPause = v.object({
  ...pause.entries,
  from: maybe(v.string(), 'The node that it was heard from; absent where it was said on this node.'),
  liftedFrom: maybe(v.string(), 'The same of who lifted it.'),
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
export function newPause({ atMs, forMs, causeMs = atMs, ...said }: NewPause): Pause {
  const [cause, at = '', until = ''] = [causeMs, atMs, atMs + forMs].map((ms) => new Date(ms).toISOString());
  const { node, name, version, by, why } = said;
  const id = hexOf(digestOf(JSON.stringify([node, name, version, by, why, cause]))).slice(0, 12);
  return { ...said, id, at, until };
}

/** On this node, in milliseconds since the epoch: the clock of the other one may be ahead. */
export function endOf({ heard, ...said }: Pick<Pause, 'at' | 'until' | 'heard'>): number {
  const endMs = saidEndOf(said);
  return heard === undefined ? endMs : Math.min(endMs, Date.parse(heard.at) + endMs - Date.parse(said.at));
}

function saidEndOf({ at, until }: Pick<Pause, 'at' | 'until'>): number {
  return Math.min(Date.parse(until), Date.parse(at) + LONGEST_PAUSE_MS);
}

/** By the clock of this node. */
export interface PauseClock {
  readonly now: number;
  readonly clockSynchronised: boolean;
}

/** A lost lift, a clock that is set back or that is wrong makes a pause longer, not shorter. */
export function isLasting(one: Pause, clock: PauseClock): boolean {
  return endOf(one) > clock.now && !isOfFuture(one, clock);
}

/**
 * It stays known for as long as another node may say it: what has ended or was lifted on this node
 * is not heard again.
 */
function isKept(one: SharedPause, clock: PauseClock): boolean {
  return saidEndOf(one) > clock.now && !isOfFuture(one, clock);
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
  readonly nodes: readonly {
    readonly name: string;
    readonly status?: { readonly pauses?: readonly SharedPause[] };
  }[];
}

/**
 * What one node may add is bounded. Returns `known` itself where nothing changes.
 *
 * @param kept ids of pauses of this node that stay known when they have ended
 */
export function heardPauses(
  known: readonly Pause[],
  view: HeardNodes | undefined,
  clock: PauseClock,
  kept: ReadonlySet<string> = new Set(),
): readonly Pause[] {
  const stay = known.filter((one) => isKept(one, clock) || (kept.has(one.id) && !isOfFuture(one, clock)));
  const pauses = new Map(stay.map((one) => [one.id, heardAgain(one, clock)]));
  let isChanged = pauses.size < known.length || known.some((one) => pauses.get(one.id) !== one);
  const soon = { ...clock, now: clock.now + LEAST_MS };
  for (const { name: from, status } of view?.nodes ?? []) {
    if (from === view?.self) continue;
    for (const said of plainDocument(status?.pauses ?? [])) {
      const before = pauses.get(said.id);
      if (before === undefined ? !isKept(said, soon) : withLift(before, said, from) === before) continue;
      if (before === undefined) isChanged = take(pauses, newlyHeard(said, from, clock), clock) || isChanged;
      else {
        pauses.set(said.id, withLift(before, said, from));
        isChanged = true;
      }
    }
  }
  return isChanged ? [...pauses.values()] : known;
}

function newlyHeard(said: SharedPause, from: string, { now, clockSynchronised }: PauseClock): Pause {
  const heard = { at: new Date(now).toISOString(), clockSynchronised };
  return { ...said, from, heard, ...(said.lifted && { liftedFrom: from }) };
}

/** Once the own clock is right: what it measured before may be wrong by years. */
function heardAgain(one: Pause, { now, clockSynchronised }: PauseClock): Pause {
  if (one.heard === undefined || one.heard.clockSynchronised || !clockSynchronised) return one;
  return { ...one, heard: { at: new Date(now).toISOString(), clockSynchronised } };
}

/** Takes the place of one that weighs less where there is no other. False: it was not taken. */
function take(pauses: Map<string, Pause>, next: Pause, clock: PauseClock): boolean {
  // Of this node, of the node that gives it, of any; what holds before what is over.
  const weight = (one: Pause) =>
    (one.from === undefined ? 0 : one.from === one.node ? 1 : 2) +
    (one.lifted === undefined && isLasting(one, clock) ? 0 : 3);
  const lightest = (rivals: readonly Pause[]) => rivals.toSorted((a, b) => weight(b) - weight(a))[0];
  const ofPeer = [...pauses.values()].filter(({ from }) => from === next.from);
  const isFull = ofPeer.length >= MOST_OF_PEER || pauses.size >= MOST_PAUSES;
  const out = isFull ? lightest(ofPeer.length >= MOST_OF_PEER ? ofPeer : [...pauses.values()]) : undefined;
  if (out !== undefined && weight(out) <= weight(next)) return false;
  if (out !== undefined) pauses.delete(out.id);
  pauses.set(next.id, next);
  return true;
}

function withLift(before: Pause, { lifted }: SharedPause, from: string): Pause {
  return lifted === undefined || before.lifted !== undefined ? before : { ...before, lifted, liftedFrom: from };
}

/** On the wire nodes name all that they know; into its own Node each writes what was said on it. */
export function isSaidHere({ from, lifted, liftedFrom }: Pause): boolean {
  return from === undefined || (lifted !== undefined && liftedFrom === undefined);
}
