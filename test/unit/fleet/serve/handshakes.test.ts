import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  displaced,
  type Handshake,
  MOST_HANDSHAKES,
  MOST_OF_ADDRESS,
  MOST_OF_STRANGERS,
} from '../../../../src/fleet/serve/node-port.ts';

/** A connection that says nothing, from a host. */
const stranger = (host: number): Handshake => ({ address: `192.0.2.${host}`, isKnown: false });
const node = (host: number): Handshake => ({ address: `10.0.0.${host}`, isKnown: true });
const times = <T>(count: number, make: (at: number) => T): T[] => Array.from({ length: count }, (_, at) => make(at));

/** The open handshakes after so many came, none of which ended. */
function after(all: readonly Handshake[]): Handshake[] {
  let open: Handshake[] = [];
  for (const next of all) {
    const gone = displaced(open, next);
    if (gone !== 'next') open = [...open.filter((one) => one !== gone), next];
  }
  return open;
}

it('keeps slots for nodes, whatever strangers do', () => {
  const open = after(times(200, (at) => stranger(at % 10)));
  expect(open).toHaveLength(MOST_OF_STRANGERS);
  for (const host of [1, 2]) expect(displaced(open, node(host))).toBeUndefined();
});

it('ends the oldest handshake of strangers first, and that of the same address', () => {
  const open = after(times(MOST_OF_STRANGERS, stranger));
  expect(displaced(open, stranger(99))).toBe(open[0]);
  const [first, second] = [node(1), node(1)];
  const crowded = [node(2), first, second, ...times(MOST_OF_ADDRESS.known - 2, () => node(1))];
  expect(displaced(crowded, node(1))).toBe(first);
});

it('lets no stranger in while nodes have all slots', () => {
  const full = times(MOST_HANDSHAKES, node);
  expect(displaced(full, stranger(1))).toBe('next');
  expect(displaced(full, node(99))).toBe(full[0]);
});

const handshake = fc
  .record({ host: fc.integer({ min: 1, max: 12 }), isKnown: fc.boolean() })
  .map(({ host, isKnown }) => (isKnown ? node(host) : stranger(host)));

it('never has too many, and a stranger never displaces a node', () => {
  fc.assert(
    fc.property(fc.array(handshake, { maxLength: 300 }), handshake, (all, next) => {
      const open = after(all);
      const strangers = open.filter(({ isKnown }) => !isKnown);
      expect(open.length).toBeLessThanOrEqual(MOST_HANDSHAKES);
      expect(strangers.length).toBeLessThanOrEqual(MOST_OF_STRANGERS);
      for (const { address, isKnown } of open) {
        const most = MOST_OF_ADDRESS[isKnown ? 'known' : 'stranger'];
        expect(open.filter((one) => one.address === address).length).toBeLessThanOrEqual(most);
      }
      const gone = displaced(open, next);
      if (!next.isKnown && gone !== 'next') expect(gone?.isKnown).not.toBe(true);
      if (next.isKnown) expect(gone).not.toBe('next');
    }),
  );
});
