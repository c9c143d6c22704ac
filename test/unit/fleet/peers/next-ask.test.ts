import { expect, it } from 'vitest';
import type { ReleaseStatus } from '../../../../src/domain/fleet/node-status.ts';
import { isNeedy, pauseOf } from '../../../../src/fleet/peers/peer.ts';

const target = { endpoint: { host: '10.0.0.2', port: 9777 }, names: [], isAnnounced: true, serves: [] };
const announced = { quiet: 1, trouble: undefined, target };
const other = { ...announced, target: { ...target, isAnnounced: false } };

it('leaves a node alone whose announcement is waited for', () => {
  expect(pauseOf(announced, false)).toBe(Number.POSITIVE_INFINITY);
});

it('asks others now and then, and those that failed: from 5 s to 10 min', () => {
  const pauses = [0, 1, 2, 3, 4, 5, 6, 7, 100].map((quiet) => pauseOf({ ...other, quiet }, false));
  expect(pauses).toEqual([5_000, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 600_000]);
  expect(pauseOf({ ...announced, trouble: 'away', quiet: 3 }, false)).toBe(20_000);
});

it('asks everybody at least every 30 s while this node needs something', () => {
  expect(pauseOf({ ...announced, quiet: 100 }, true)).toBe(30_000);
  expect(pauseOf(announced, true)).toBe(5_000);
});

const release = (more: Partial<ReleaseStatus>): ReleaseStatus => ({
  name: 'ocp',
  version: '4.13.7',
  bundle: '0123456789abcdef',
  phase: 'proven',
  ...more,
});

it.each([
  [{ phase: 'preloading' }, true, true],
  [{ phase: 'held' }, true, true],
  [{ phase: 'ready' }, true, false],
  [{ phase: 'proven' }, false, false],
  [{ phase: 'held', reason: 'engine/no-source' }, true, true],
  [{ phase: 'held', reason: 'trust/approval' }, false, false],
  [{ phase: 'held', reason: 'engine/cancelled' }, false, false],
  [{ phase: 'held', reason: 'engine/no-space' }, false, false],
  [{ phase: 'ready', reason: 'fleet/not-ready' }, true, true],
  [{ phase: 'ready', reason: 'fleet/paused' }, true, true],
  [{ phase: 'ready', reason: 'window' }, true, false],
  [{ phase: 'ready', reason: 'engine/manual' }, false, false],
  [{ phase: 'ready', reason: 'engine/pulls-from-elsewhere' }, false, false],
  [{ phase: 'ready', reason: 'clock' }, false, false],
  [{ phase: 'ready', reason: 'hook' }, false, false],
  [{ phase: 'ready', reason: 'rule/downgrade' }, false, false],
  [{ phase: 'ready', reason: 'trust/key-revoked' }, false, false],
  [{ phase: 'ready', reason: 'engine/rolled-back' }, false, false],
  [{ phase: 'proven', reason: 'engine/image-missing' }, true, true],
  [{ phase: 'activated', reason: 'bundle/blob-missing' }, true, true],
  [{ phase: 'activated', reason: 'engine/rolled-back' }, false, false],
  [{ phase: 'superseded', reason: 'engine/rolled-back' }, false, false],
  [{ phase: 'proven', reason: 'trust/key-revoked' }, false, false],
  [{ phase: 'proven', reason: 'runtime/unreachable' }, false, false],
  [{ phase: 'proven', reason: 'runtime/pins-ignored' }, false, false],
  [{ phase: 'active', reason: 'engine/tag-contested' }, false, false],
  [{ phase: 'rejected', reason: 'unknown-key' }, false, false],
  [{ phase: 'retired', reason: 'x' }, false, false],
] as const)('a node with %o needs others: ordered %o, each %o', (more, ordered, each) => {
  const status = { version: 1, releases: [release({}), release(more)] } as const;
  expect([isNeedy(status, true), isNeedy(status, false)]).toEqual([ordered, each]);
});

it('a node of which nothing is known needs nobody', () => {
  expect(isNeedy(undefined, true)).toBe(false);
});
