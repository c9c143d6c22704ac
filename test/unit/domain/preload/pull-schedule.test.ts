import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { fittingPulls, orderPulls, type PullCandidate } from '../../../../src/domain/preload/pull-schedule.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';

const pull = (reference: string, layers: Readonly<Record<string, number>>): PullCandidate => ({
  reference,
  missingLayers: Object.entries(layers).map(([name, sizeBytes]) => ({ digest: digestOf(name), sizeBytes })),
});

interface Now {
  readonly candidates: readonly PullCandidate[];
  readonly running: readonly PullCandidate[];
  readonly parallel: number;
}

const nextPulls = ({ candidates, running, parallel }: Now) => {
  const started = new Set(running.map(({ reference }) => reference));
  const waiting = orderPulls(candidates.filter(({ reference }) => !started.has(reference)));
  return fittingPulls({ waiting, running, landed: new Set(), parallel }).map(({ reference }) => reference);
};

describe('the schedule of pulls', () => {
  it('starts the first image with the layer that most images wait for, and images without shared layers beside it', () => {
    const candidates = [
      pull('small', { s: 1 }),
      pull('a', { base: 100, a: 1 }),
      pull('b', { base: 100, b: 5 }),
      pull('large', { l: 500 }),
    ];
    expect(nextPulls({ candidates, running: [], parallel: 3 })).toEqual(['b', 'large', 'small']);
  });

  it('keeps the order of the bundle between equals', () => {
    const candidates = ['x', 'y', 'z'].map((name) => pull(name, { [name]: 5 }));
    expect(nextPulls({ candidates, running: [], parallel: 2 })).toEqual(['x', 'y']);
  });

  it('waits for a running pull of a shared layer, and starts images that only lack a manifest', () => {
    const running = [pull('a', { base: 100 })];
    const candidates = [pull('b', { base: 100 }), pull('c', {})];
    expect(nextPulls({ candidates, running, parallel: 4 })).toEqual(['c']);
    expect(nextPulls({ candidates, running, parallel: 1 })).toEqual([]);
  });

  it('counts no slot for a running pull that waits for its medium, and keeps its layers', () => {
    const running = [{ ...pull('a', { base: 100 }), isCut: true }];
    const candidates = [pull('b', { base: 100 }), pull('c', { c: 1 }), pull('d', { d: 1 })];
    expect(nextPulls({ candidates, running, parallel: 1 })).toEqual(['c']);
  });

  it('gives free slots to pulls that share a layer, after all others, where the runtime reads it once', () => {
    const candidates = [
      pull('a', { base: 100, a: 9 }),
      pull('b', { base: 100, b: 5 }),
      pull('c', { base: 100, c: 1 }),
      pull('alone', { l: 1 }),
    ];
    const next = (parallel: number, readsSharedOnce: boolean, running: readonly PullCandidate[] = []) => {
      const waiting = orderPulls(candidates);
      const input = { waiting, running, landed: new Set<Digest>(), parallel, readsSharedOnce };
      return fittingPulls(input).map(({ reference }) => reference);
    };
    expect(next(3, true)).toEqual(['a', 'alone', 'b']);
    expect(next(3, false)).toEqual(['a', 'alone']);
    expect(next(9, true)).toEqual(['a', 'alone', 'b', 'c']);
    expect(next(2, true, [pull('x', { base: 100 })])).toEqual(['alone']);
    expect(next(1, true, [pull('x', {}), pull('y', {})])).toEqual([]);
  });

  it('never pulls a shared missing layer twice, always starts a pull that may run, and starts each image once', () => {
    const anyPull = fc
      .record({
        reference: fc.constantFrom(...'abcdefgh'),
        layers: fc.uniqueArray(fc.constantFrom(...'123456'), { maxLength: 4 }),
      })
      .map(({ reference, layers }) => pull(reference, Object.fromEntries(layers.map((name) => [name, Number(name)]))));
    const unique = (maxLength: number) => fc.uniqueArray(anyPull, { selector: (one) => one.reference, maxLength });
    fc.assert(
      fc.property(unique(8), fc.nat(2), fc.integer({ min: 1, max: 5 }), (pulls, ahead, parallel) => {
        const running = nextPulls({ candidates: pulls, running: [], parallel: ahead });
        const runningPulls = pulls.filter(({ reference }) => running.includes(reference));
        const next = nextPulls({ candidates: pulls, running: runningPulls, parallel });
        const together = pulls.filter(({ reference }) => [...running, ...next].includes(reference));
        const layers = together.flatMap(({ missingLayers }) => missingLayers.map(({ digest }) => digest));
        expect(new Set(layers).size).toBe(layers.length);
        expect(new Set([...running, ...next]).size).toBe(running.length + next.length);
        expect(next.length).toBeLessThanOrEqual(Math.max(0, parallel - running.length));
        const mayRun = pulls.some(
          (one) => !together.includes(one) && one.missingLayers.every(({ digest }) => !layers.includes(digest)),
        );
        expect(mayRun && together.length < parallel).toBe(false);
      }),
    );
  });

  it('pulls every image and each layer once, for any order in which pulls end, and is never idle before the last one', () => {
    const anyImage = fc.uniqueArray(fc.constantFrom(...'123456789'), { maxLength: 5 });
    fc.assert(
      fc.property(
        fc.array(anyImage, { maxLength: 12 }),
        fc.integer({ min: 1, max: 5 }),
        fc.array(fc.nat(), { minLength: 12, maxLength: 12 }),
        (images, parallel, ends) => {
          const present = new Set<string>();
          const pulled: string[] = [];
          const read: string[] = [];
          let running: PullCandidate[] = [];
          const missing = (index: number) => (images[index] ?? []).filter((name) => !present.has(name));
          const candidateOf = (index: number) =>
            pull(String(index), Object.fromEntries(missing(index).map((name) => [name, Number(name)])));
          for (let turn = 0; pulled.length < images.length; turn += 1) {
            const waiting = images
              .map((_, index) => index)
              .filter((index) => !pulled.includes(String(index)))
              .map(candidateOf);
            const next = nextPulls({ candidates: waiting, running, parallel });
            read.push(...next.flatMap((reference) => missing(Number(reference))));
            running = [...running, ...waiting.filter(({ reference }) => next.includes(reference))];
            expect(running.length).toBeGreaterThan(0);
            const [ended] = running.splice((ends[turn] ?? 0) % running.length, 1);
            pulled.push(ended?.reference ?? '');
            for (const name of missing(Number(ended?.reference))) present.add(name);
          }
          expect(new Set(pulled).size).toBe(images.length);
          expect(new Set(read).size).toBe(read.length);
          expect(new Set(read)).toEqual(new Set(images.flat()));
        },
      ),
    );
  });
});
