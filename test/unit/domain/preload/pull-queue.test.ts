import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  afterPull,
  fill,
  orderPulls,
  type PlannedPull,
  type PullQueue,
} from '../../../../src/domain/preload/pull-schedule.ts';
import { digestOf } from '../../../support/daemon/scenario.ts';

const planned = (reference: string, layers: readonly string[]): PlannedPull => ({
  reference,
  missingLayers: layers.map((name) => ({ digest: digestOf(name), sizeBytes: name.length })),
  task: { kind: 'pull', bundleId: digestOf('bundle'), reference },
});
const pullQueueOf = (pulls: readonly PlannedPull[], parallel: number): PullQueue => ({
  waiting: orderPulls(pulls),
  running: [],
  landed: new Set(),
  parallel,
});
const named = (tasks: readonly { reference: string }[]) => tasks.map(({ reference }) => reference);

describe('the pull queue', () => {
  it('starts an image right after the one that pulled their shared layer', () => {
    const first = fill(pullQueueOf([planned('a', ['base', 'a']), planned('b', ['base']), planned('c', ['c'])], 2));
    expect(named(first.starts)).toEqual(['a', 'c']);
    const second = afterPull(first.pullQueue, 'c');
    expect(named(second.starts)).toEqual([]);
    expect(named(afterPull(second.pullQueue, 'a').starts)).toEqual(['b']);
  });

  it('starts only pulls that fit beside the running ones', () => {
    const pullQueue = pullQueueOf(
      ['x', 'y', 'z'].map((name) => planned(name, [name])),
      2,
    );
    const { starts, pullQueue: left } = fill({ ...pullQueue, running: [planned('other', ['o'])] });
    expect(named(starts)).toEqual(['x']);
    expect(named(fill(left).starts)).toEqual([]);
  });

  it('pulls every image and each layer once, for any order in which pulls end, and is never idle before the last one', () => {
    const anyImage = fc.uniqueArray(fc.constantFrom(...'123456789'), { maxLength: 5 });
    const anyImages = fc.array(anyImage, { minLength: 1, maxLength: 12 });
    const anyEnds = fc.array(fc.nat(), { minLength: 12, maxLength: 12 });
    fc.assert(
      fc.property(anyImages, fc.integer({ min: 1, max: 5 }), anyEnds, (images, parallel, ends) => {
        const pulls = images.map((layers, at) => planned(String(at), layers));
        const started: string[] = [];
        const read: string[] = [];
        let { starts, pullQueue } = fill(pullQueueOf(pulls, parallel));
        for (const end of ends.slice(0, images.length)) {
          for (const reference of named(starts)) {
            started.push(reference);
            read.push(...(images[Number(reference)] ?? []).filter((name) => !pullQueue.landed.has(digestOf(name))));
          }
          expect(pullQueue.running.length).toBeGreaterThan(0);
          expect(pullQueue.running.length).toBeLessThanOrEqual(parallel);
          const ended = pullQueue.running[end % pullQueue.running.length]?.reference ?? '';
          ({ starts, pullQueue } = afterPull(pullQueue, ended));
        }
        expect(started.toSorted()).toEqual(named(pulls).toSorted());
        expect(pullQueue.running).toEqual([]);
        expect(read.toSorted()).toEqual([...new Set(images.flat())].toSorted());
      }),
    );
  });
});
