import { expect, it } from 'vitest';
import { barrier } from '../../../../../src/domain/activation/rules.ts';
import type { StoredBundle } from '../../../../../src/domain/state/state.ts';
import { NOON, pathWith, stored, verified } from '../../../../support/daemon/scenario.ts';

const release = (minor: number, over: Partial<StoredBundle> = {}, isBarrier = false): StoredBundle => ({
  ...stored(
    verified({ version: `1.${minor}.0`, sequence: minor, ...(isBarrier && { update: { barrier: { reason: 'x' } } }) }),
    { readyAt: NOON },
  ),
  ...over,
});
const ACTIVE = { activatedAt: 1 };
const PROVEN = { activatedAt: 1, provenAt: 2 };
/** An advisory that tells of a barrier 1.3.0, which is not here. */
const tellsOf13 = stored(
  verified({
    version: '2026.1.1',
    sequence: 90,
    images: {},
    advisories: [{ version: '1.3.0', barrier: true, reason: 'x' }],
  }),
);

it.each<{ when: string; bundles: readonly StoredBundle[]; hold: object }>([
  {
    when: 'the barrier runs and is not proven: its proof ends it',
    bundles: [release(3, ACTIVE, true), release(4)],
    hold: { data: { lacks: 'proof' }, releasedBy: 'event' },
  },
  {
    when: 'the barrier runs, and a newer release will be next: its proof ends it all the same',
    bundles: [release(3, ACTIVE, true), release(4), release(5)],
    hold: { data: { lacks: 'proof' }, releasedBy: 'event' },
  },
  {
    when: 'the barrier comes before it: its activation ends it',
    bundles: [release(2, PROVEN), release(3, {}, true), release(4)],
    hold: { data: { lacks: 'activation', after: '1.3.0' }, releasedBy: 'event' },
  },
  {
    when: 'the bundle of the barrier is not here: a person ends it',
    bundles: [release(2, PROVEN), release(4), tellsOf13],
    hold: { data: { lacks: 'bundle' }, releasedBy: 'person' },
  },
])('a barrier holds: $when', ({ bundles, hold }) => {
  const held = bundles.find(({ payload }) => payload.version === '1.4.0');
  expect(held && barrier({ bundle: held, path: pathWith(bundles) })).toMatchObject({ kind: 'hold', hold });
});
