import type { RollOutProgress, ShownPlace } from '../../fleet/progress.ts';

/** The most busy nodes that are named. The next node is named, too. */
const MOST_NAMED = 3;

/** The whole roll-out in one line. */
export function rollOutLine({ total, done, places }: RollOutProgress): string {
  const busy = places.filter(({ state }) => !['done', 'waits', 'loads'].includes(state));
  const next = places.find(({ state }) => state === 'waits' || state === 'loads');
  const named = busy.slice(0, MOST_NAMED).map((one) => `; ${nameOf(one)} ${DOES[one.state](one)}`);
  const more = busy.length > MOST_NAMED ? ` and ${busy.length - MOST_NAMED} more` : '';
  const then =
    next === undefined ? '' : next.state === 'loads' ? `; ${next.node} still loads it` : `; ${next.node} is next`;
  return `${done} of ${total} nodes are done${named.join('')}${more}${then}`;
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

/** Says in a table what a node waits for. @param now milliseconds since the epoch */
export function placeText(one: ShownPlace, { places }: RollOutProgress): string {
  if (one.state !== 'waits') return DOES[one.state](one);
  const first = places.find(({ state, place }) => state !== 'done' && place < one.place);
  return first === undefined ? 'is next' : `waits for ${first.node}`;
}
