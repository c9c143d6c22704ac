import * as v from 'valibot';
import { maybe, type Parsed } from '../../platform/schema.ts';

/** Of a large cluster, those that are not done. */
const MOST_PLACES = 64;

/** Times that only jitter would change stay the same. */
const STEP_MS = 10_000;

/** Of a roll-out, as one node sees it. */
export const rollOutProgress = v.object({
  line: v.string(),
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

type ShownPlace = RollOutProgress['places'][number];

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
  return { line: lineOf(all.length, open, next), ...(next?.node === self && { leads: true as const }), places };
}

function shownPlace({ name, isCanary, state, leftMs }: Place, place: number, now: number): ShownPlace {
  const until =
    leftMs === undefined ? undefined : new Date(Math.ceil((now + leftMs) / STEP_MS) * STEP_MS).toISOString();
  return { place, node: name, state, ...(isCanary && { isCanary: true as const }), ...(until && { until }) };
}

/** Of those under way, and of the next one. */
const MOST_NAMED = 3;

function lineOf(total: number, open: readonly ShownPlace[], next: ShownPlace | undefined): string {
  const busy = open.filter(({ state }) => state !== 'waits' && state !== 'loads');
  const named = busy.slice(0, MOST_NAMED).map((one) => `; ${nameOf(one)} ${DOES[one.state](one)}`);
  const more = busy.length > MOST_NAMED ? ` and ${busy.length - MOST_NAMED} more` : '';
  const then =
    next === undefined ? '' : next.state === 'loads' ? `; ${next.node} still loads it` : `; ${next.node} is next`;
  return `${total - open.length} of ${total} nodes are done${named.join('')}${more}${then}`;
}

function nameOf({ node, isCanary }: ShownPlace): string {
  return isCanary === true ? `canary ${node}` : node;
}

const DOES: Readonly<Record<ShownPlace['state'], (place: ShownPlace) => string>> = {
  done: () => 'is done',
  settles: ({ until }) => (until === undefined ? 'has yet to prove it' : `has to run it well until ${until}`),
  between: () => 'activates it',
  failed: () => 'failed',
  waits: () => 'waits',
  loads: () => 'loads it',
};

/** What a node waits for, in a table. @param now milliseconds since the epoch */
export function placeText(one: ShownPlace, { places }: RollOutProgress): string {
  if (one.state !== 'waits') return DOES[one.state](one);
  const first = places.find(({ state, place }) => state !== 'done' && place < one.place);
  return first === undefined ? 'is next' : `waits for ${first.node}`;
}
