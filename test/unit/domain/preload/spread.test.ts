import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Medium } from '../../../../src/domain/model/medium.ts';
import { orderPulls, type PullCandidate, type Spread, spreadOf } from '../../../../src/domain/preload/pull-schedule.ts';
import { defaultSettings } from '../../../../src/domain/settings/settings.ts';
import { digestOf, found, layer, medium, verified } from '../../../support/daemon/scenario.ts';

const bundle = verified({ images: { a: ['a'], b: ['b'], c: ['c'] } });
const lacks = (name: string) => ({ digest: layer(name).digest, why: 'absent' as const });
const peer = (name: string, ...missing: string[]): Medium => ({
  ...medium(name, [found(bundle, missing.map(lacks))]),
  peer: { isReady: true },
});
const fleet = { self: 'worker-2', nodes: [], peers: [] };
const kept = { ...defaultSettings, retention: { ...defaultSettings.retention, blobs: 'kept' as const } };

const pull = (reference: string, layers: Readonly<Record<string, number>> = { [reference]: 1 }): PullCandidate => ({
  reference,
  missingLayers: Object.entries(layers).map(([name, sizeBytes]) => ({ digest: layer(name).digest, sizeBytes })),
});
const order = (pulls: readonly PullCandidate[], spread?: Spread) =>
  orderPulls(pulls, spread).map(({ reference }) => reference);

it('begins with what the fewest other nodes give', () => {
  const media = [peer('worker-1'), peer('worker-3', 'a'), peer('worker-4', 'a', 'c')];
  for (let at = 0; at < 10; at += 1) {
    const spread = spreadOf({ media, fleet: { ...fleet, self: `node-${at}` } }, kept, 'compressed');
    expect(order([pull('b'), pull('c'), pull('a')], spread)).toEqual(['a', 'c', 'b']);
  }
});

it('counts by the rarest layer, and shared layers still come first', () => {
  const media = [peer('worker-1'), peer('worker-3', 'a')];
  const spread = spreadOf({ media, fleet }, kept, 'compressed');
  expect(order([pull('b'), pull('both', { a: 1, b: 9 })], spread)[0]).toBe('both');
  expect(order([pull('a'), pull('x', { base: 9, b: 1 }), pull('y', { base: 9, c: 1 })], spread)[2]).toBe('a');
});

it('is in force where this node gives on what it takes, and takes it from other nodes alone', () => {
  const of = (over: {
    policy?: Parameters<typeof spreadOf>[1];
    storage?: 'both' | 'compressed';
    view?: typeof fleet | undefined;
    media?: readonly Medium[];
  }) => {
    const { policy = kept, storage = 'compressed', media = [peer('worker-1')] } = over;
    return spreadOf({ media, fleet: 'view' in over ? over.view : fleet }, policy, storage) !== undefined;
  };
  const unread: Medium = { ...medium('worker-3', { kind: 'attached' }), peer: { isReady: true } };
  expect(of({})).toBe(true);
  expect(of({ policy: defaultSettings, storage: 'both' })).toBe(true);
  expect(of({ policy: defaultSettings })).toBe(false);
  expect(of({ policy: { ...kept, fleet: { ...kept.fleet, serve: false } }, storage: 'both' })).toBe(false);
  expect(of({ view: undefined })).toBe(false);
  expect(of({ media: [peer('worker-1'), medium('sdb1', [found(bundle)])] })).toBe(false);
  expect(of({ media: [peer('worker-1'), medium('sdb1', [])] })).toBe(true);
  expect(of({ media: [unread] })).toBe(false);
});

it('gives each node an order of its own, the same each time, with every pull in it', () => {
  const pulls = Array.from({ length: 40 }, (_none, at) => pull(`image${at}`));
  const firsts = Array.from({ length: 20 }, (_none, at) => {
    const spread = { self: `worker-${at}`, holders: new Map() };
    expect(order(pulls, spread)).toEqual(order([...pulls].reverse(), spread));
    return order(pulls, spread)[0];
  });
  expect(new Set(firsts).size).toBeGreaterThan(10);
  fc.assert(
    fc.property(fc.uniqueArray(fc.string()), fc.string(), (names, self) => {
      const spread = { self, holders: new Map([[digestOf('x'), 1]]) };
      expect(
        order(
          names.map((name) => pull(name)),
          spread,
        ).sort(),
      ).toEqual([...names].sort());
    }),
  );
});
