import { describe, expect, it } from 'vitest';
import { reportOf } from '../../../../src/domain/report/report.ts';
import { lastingStatus } from '../../../../src/domain/report/snapshot.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  artifactOf,
  found,
  judge,
  layer,
  listed,
  medium,
  NOON,
  observation,
  pullOf,
  reachable,
  referenceOf,
  refused,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified();
const lasting = (over: Partial<Scene>, stage: Partial<StoredBundle> = {}, doneBytes = 3) => {
  const observed = observation({ media: [medium('sdb1', [found(bundle)])], ...over });
  const { assessment } = judge(observed, [stored(bundle, stage)]);
  return lastingStatus(
    reportOf(
      { observed, memory: observed, assessment },
      { doneBytes, totalBytes: 9, bytesPerSecond: 1.6, waitingTransfers: 0 },
    ),
  );
};
const preloading = { running: [pullOf(bundle, 'etcd')] };
const done = { runtime: reachable({ images: allListed(bundle) }) };

describe('the part of the status that is written to the disk', () => {
  it('does not include the progress of a preload', () => {
    const half = { ...preloading, runtime: reachable({ images: [listed(referenceOf('api'))] }) };
    expect(lasting(half, {}, 7)).toBe(lasting(preloading));
  });

  it('does not include how many artifacts are there', () => {
    const two = verified({ artifacts: { small: ['model'], large: ['weights'] } });
    const text = (localBlobs: Scene['localBlobs']) => {
      const observed = observation({ media: [medium('sdb1', [found(two)])], localBlobs });
      const { assessment } = judge(observed, [stored(two)]);
      const report = reportOf(
        { observed, memory: observed, assessment },
        { doneBytes: 0, totalBytes: 9, waitingTransfers: 0 },
      );
      return lastingStatus(report);
    };
    const small = artifactOf('small');
    expect(text(new Set([small.digest, small.config.digest, layer('model').digest]))).toBe(text(new Set()));
  });

  it('does not include the text of a fault', () => {
    const media = (why: string) => ({ media: [medium('sdb1', [refused(why)])] });
    expect(lasting(media('a bad signature'))).toBe(lasting(media('a worse signature')));
    const away = (reason: string) => lasting({ runtime: { kind: 'unreachable', reason } });
    expect(away('no socket')).toBe(away('no answer'));
  });

  it.each<[what: string, one: string, other: string]>([
    ['a phase', lasting(preloading), lasting(done, { readyAt: NOON })],
    [
      'the time of an activation',
      lasting(done, { readyAt: NOON, activatedAt: NOON }),
      lasting(done, { readyAt: NOON, activatedAt: NOON + 1 }),
    ],
    ['a hold', lasting({ media: [] }), lasting({ media: [] }, { cancelled: { at: NOON, media: [] } })],
    ['a runtime that is away', lasting(done), lasting({ runtime: { kind: 'unreachable', reason: 'x' } })],
    ['a medium', lasting(done), lasting({ ...done, media: [] })],
    ['a rejection', lasting(done), lasting({ ...done, media: [medium('sdb1', [refused('x')])] })],
  ])('includes %s', (_what, one, other) => expect(one).not.toBe(other));
});
