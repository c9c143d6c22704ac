import * as v from 'valibot';
import { maybe, type Parsed } from '../../platform/schema.ts';

/** A large cluster shows those that are not done. */
const MOST_PLACES = 64;

/** Times that only jitter would change stay the same. */
const STEP_MS = 10_000;

/** How far a roll-out is, as one node sees it. */
export const rollOutProgress = v.object({
  total: v.number(),
  done: v.number(),
  leads: maybe(v.literal(true), 'This node is the next one to activate it.'),
  places: v.array(
    v.object({
      place: v.number(),
      node: v.string(),
      state: v.picklist(['done', 'settles', 'between', 'waits', 'failed', 'loads']),
      isCanary: maybe(v.literal(true), 'Others wait for its soak.'),
      until: maybe(
        v.pipe(v.string(), v.isoTimestamp()),
        'When it has run it well for long enough, if nothing disturbs it.',
      ),
    }),
  ),
});

export type RollOutProgress = Parsed<typeof rollOutProgress>;

export type ShownPlace = RollOutProgress['places'][number];

export interface Place {
  readonly name: string;
  readonly isCanary: boolean;
  readonly state: 'done' | 'settles' | 'between' | 'waits' | 'failed' | 'loads';
  /** Until it counts as done, where time alone is lacking. */
  readonly leftMs?: number;
}

/** Undefined for a node that is alone, and once all are done. */
export function progressOf(line: readonly Place[], self: string, now: number): RollOutProgress | undefined {
  const all = line.map((place, at) => shownPlace(place, at + 1, now));
  const open = all.filter(({ state }) => state !== 'done');
  if (all.length < 2 || open.length === 0) return undefined;
  const next = open.find(({ state }) => state === 'waits' || state === 'loads');
  const places = (all.length > MOST_PLACES ? open : all).slice(0, MOST_PLACES);
  const done = all.length - open.length;
  return { total: all.length, done, ...(next?.node === self && { leads: true as const }), places };
}

function shownPlace({ name, isCanary, state, leftMs }: Place, place: number, now: number): ShownPlace {
  const until =
    leftMs === undefined ? undefined : new Date(Math.ceil((now + leftMs) / STEP_MS) * STEP_MS).toISOString();
  return { place, node: name, state, ...(isCanary && { isCanary: true as const }), ...(until && { until }) };
}
