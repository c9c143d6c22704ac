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
});

export type Pause = Parsed<typeof keptPause>;

interface NewPause extends Pick<Pause, 'name' | 'version' | 'node' | 'by' | 'why'> {
  readonly atMs: number;
  readonly forMs: number;
}

/** The same for the same values: what begins a pause automatically does so once. */
export function newPause({ atMs, forMs, ...said }: NewPause): Pause {
  const [at, until] = [atMs, atMs + forMs].map((ms) => new Date(ms).toISOString());
  const id = hexOf(digestOf(JSON.stringify([said.node, said.name, said.version, said.by, said.why, at]))).slice(0, 12);
  return { ...said, id, at: at ?? '', until: until ?? '' };
}

/** Milliseconds since the epoch. */
export function endOf({ at, until }: Pick<Pause, 'at' | 'until'>): number {
  return Math.min(Date.parse(until), Date.parse(at) + LONGEST_PAUSE_MS);
}

/** By the clock of this node. */
export interface PauseClock {
  readonly now: number;
  readonly clockSynchronised: boolean;
}

/** A lost lift, a clock that is set back or that is wrong makes a pause longer, not shorter. */
function isLasting(one: Pause, { now, clockSynchronised }: PauseClock): boolean {
  return endOf(one) > now && !(clockSynchronised && Date.parse(one.at) > now + AHEAD_MS);
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

/** What one node may add is bounded. Returns `known` itself where nothing changes. */
export function heardPauses(
  known: readonly Pause[],
  view: HeardNodes | undefined,
  clock: PauseClock,
): readonly Pause[] {
  const pauses = new Map(known.filter((one) => isLasting(one, clock)).map((one) => [one.id, one]));
  let isChanged = pauses.size < known.length;
  const soon = { ...clock, now: clock.now + LEAST_MS };
  for (const { name: from, status } of view?.nodes ?? []) {
    if (from === view?.self) continue;
    for (const said of plainDocument(status?.pauses ?? []).map((one) => notAhead(one, clock.now))) {
      const before = pauses.get(said.id);
      const next = before === undefined ? newlyHeard(said, from, pauses, soon) : withLift(before, said, from);
      if (next === undefined || next === before) continue;
      pauses.set(next.id, next);
      isChanged = true;
    }
  }
  return isChanged ? [...pauses.values()] : known;
}

/** The clock of its node may be ahead: it holds other nodes for no longer than it says. */
function notAhead(said: SharedPause, now: number): SharedPause {
  const aheadMs = Date.parse(said.at) - now;
  const untilMs = endOf(said) - aheadMs;
  if (aheadMs <= 0 || !Number.isFinite(untilMs)) return said;
  return { ...said, at: new Date(now).toISOString(), until: new Date(untilMs).toISOString() };
}

function newlyHeard(
  said: SharedPause,
  from: string,
  pauses: ReadonlyMap<string, Pause>,
  clock: PauseClock,
): Pause | undefined {
  const ofPeer = [...pauses.values()].filter((one) => one.from === from).length;
  if (!isLasting(said, clock) || ofPeer >= MOST_OF_PEER || pauses.size >= MOST_PAUSES) return undefined;
  return { ...said, from, ...(said.lifted && { liftedFrom: from }) };
}

function withLift(before: Pause, { lifted }: SharedPause, from: string): Pause {
  return lifted === undefined || before.lifted !== undefined ? before : { ...before, lifted, liftedFrom: from };
}

/** On the wire nodes name all that they know; into its own Node each writes what was said on it. */
export function isSaidHere({ from, lifted, liftedFrom }: Pause): boolean {
  return from === undefined || (lifted !== undefined && liftedFrom === undefined);
}
