import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Digest } from '../../../../src/domain/model/digest.ts';
import { bytesDone } from '../../../../src/domain/report/snapshot.ts';
import {
  judge,
  layer,
  listed,
  MIB,
  observation,
  reachable,
  referenceOf,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified();
const done = (sent: readonly (readonly [Digest, number])[], ...present: readonly string[]) => {
  const runtime = reachable({ images: present.map((name) => listed(referenceOf(name))) });
  const { assessment, first } = judge(observation({ runtime }), [stored(bundle)]);
  if (first === undefined) throw new Error('no bundle');
  return bytesDone(first, assessment, new Map(sent));
};

describe('bytesDone', () => {
  it('counts each layer once, whole when an image with it is present', () => {
    expect(done([])).toEqual({ doneBytes: 0, totalBytes: 30 * MIB });
    expect(done([], 'etcd')).toEqual({ doneBytes: 20 * MIB, totalBytes: 30 * MIB });
    expect(done([], 'etcd', 'api')).toEqual({ doneBytes: 30 * MIB, totalBytes: 30 * MIB });
  });

  it('counts what was sent of the others, never more than the layer has', () => {
    expect(done([[layer('base').digest, 3 * MIB]]).doneBytes).toBe(3 * MIB);
    expect(done([[layer('base').digest, 99 * MIB]], 'etcd').doneBytes).toBe(20 * MIB);
    expect(done([[layer('elsewhere').digest, MIB]]).doneBytes).toBe(0);
  });

  it('never decreases while more bytes are sent and more images are present', () => {
    const names = ['base', 'etcd', 'api'] as const;
    const step = fc.record({
      name: fc.constantFrom(...names),
      bytes: fc.nat(12 * MIB),
      image: fc.option(fc.constantFrom('etcd', 'api')),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const sent = new Map<Digest, number>();
        const present = new Set<string>();
        let last = 0;
        for (const { name, bytes, image } of steps) {
          const { digest } = layer(name);
          sent.set(digest, Math.max(sent.get(digest) ?? 0, bytes));
          if (image !== null) present.add(image);
          const { doneBytes, totalBytes } = done([...sent], ...present);
          expect(doneBytes).toBeGreaterThanOrEqual(last);
          expect(doneBytes).toBeLessThanOrEqual(totalBytes);
          last = doneBytes;
        }
      }),
      { numRuns: 50 },
    );
  });
});
