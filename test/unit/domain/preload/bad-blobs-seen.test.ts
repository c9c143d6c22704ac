import { describe, expect, it } from 'vitest';
import { shownReason } from '../../../../src/domain/report/reasons/reason-text.ts';
import type { BadBlob, FailedBlob } from '../../../../src/domain/state/checks.ts';
import type { TaskFailure } from '../../../../src/domain/state/memory.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  digestOf,
  found,
  judge,
  listed,
  medium,
  NOON,
  observation,
  pullOf,
  reachable,
  referenceOf,
  type Scene,
  spoken,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';
import { textOf, told } from '../../../support/daemon/told.ts';

const bundle = verified();
const etcdLayer = digestOf('layer etcd');
const damaged: BadBlob = { digest: etcdLayer, why: 'damaged', medium: 'sdb1', reference: referenceOf('etcd') };
const apiThere = reachable({ images: [listed(referenceOf('api'))] });
const known = (...badBlobs: readonly BadBlob[]) => stored(bundle, { badBlobs });
const look = (over: Partial<Scene>, entry: StoredBundle = stored(bundle)) =>
  judge(observation({ runtime: apiThere, ...over }), [entry]);
const failure = (over: Partial<FailedBlob> = {}): TaskFailure => ({
  task: pullOf(bundle, 'etcd'),
  attempts: 1,
  reason: { code: 'media/blob-damaged', message: 'Blob of etcd is damaged on sdb1.' },
  blob: { digest: etcdLayer, why: 'damaged', medium: 'sdb1', isLast: true, ...over },
  retryAt: undefined,
});

describe('the damaged blobs of a bundle', () => {
  it('include a blob that made a pull fail, once', () => {
    const { first, decision } = look({ media: [medium('sdb1', [found(bundle)])], failures: [failure()] });
    expect(first?.badBlobs).toEqual([damaged]);
    expect(decision.effects).toContainEqual({
      kind: 'record-bad-blobs',
      bundleId: bundle.bundleId,
      badBlobs: [damaged],
    });
    const again = look({ media: [medium('sdb1', [found(bundle)])], failures: [failure()] }, known(damaged));
    expect(spoken(again.decision.effects)).not.toContain('record-bad-blobs');
  });

  it('exclude a blob of which another medium has a good copy', () => {
    expect(look({ failures: [failure({ isLast: false })] }).first?.badBlobs).toEqual([]);
  });

  it('stay known while the medium is away, until another medium is plugged in', () => {
    expect(look({}, known(damaged)).first?.badBlobs).toEqual([damaged]);
    const { first, decision } = look({ media: [medium('sdc1', [found(bundle)])] }, known(damaged));
    expect(first).toMatchObject({ badBlobs: [], phase: 'preloading' });
    expect(decision.effects).toContainEqual({ kind: 'record-bad-blobs', bundleId: bundle.bundleId, badBlobs: [] });
  });

  it('stay known while the runtime does not answer, since then it is unknown which blobs are needed', () => {
    const { first, decision } = look({ runtime: { kind: 'unreachable', reason: 'no socket' } }, known(damaged));
    expect(first?.badBlobs).toEqual([damaged]);
    expect(spoken(decision.effects)).not.toContain('record-bad-blobs');
  });

  it('are forgotten when the bundle is complete, when the layer is present, and when the node has the blob', () => {
    const complete = { runtime: reachable({ images: allListed(bundle) }) };
    expect(look(complete, known(damaged)).first?.badBlobs).toEqual([]);
    expect(look({ localBlobs: new Set([etcdLayer]) }, known(damaged)).first?.badBlobs).toEqual([]);
    const config: BadBlob = { ...damaged, digest: digestOf('config'), reference: referenceOf('api') };
    expect(look({}, known(config)).first?.badBlobs).toEqual([]);
    expect(look({}, known({ ...config, reference: referenceOf('etcd') })).first?.badBlobs).toHaveLength(1);
  });

  it('include each file that was cut short, and one of the absent ones', () => {
    const lacking = [
      { digest: digestOf('layer base'), why: 'absent' },
      { digest: etcdLayer, why: 'truncated' },
      { digest: digestOf('layer api'), why: 'absent' },
    ] as const;
    const { first } = look({ runtime: reachable(), media: [medium('sdb1', [found(bundle, lacking)])] });
    expect(first?.badBlobs).toEqual([
      { digest: etcdLayer, why: 'truncated', medium: 'sdb1' },
      { digest: digestOf('layer base'), why: 'absent', medium: 'sdb1' },
    ]);
  });

  it('exclude a blob that one medium lacks and another one has', () => {
    const one = medium('sdb1', [found(bundle, [{ digest: etcdLayer, why: 'absent' }])]);
    const other = medium('sdc1', [found(bundle)]);
    expect(look({ media: [one, other] }).first?.badBlobs).toEqual([]);
  });
});

describe('a release that can not be completed from what was seen', () => {
  it('asks for an undamaged copy with one code, whether the stick with the damaged one is plugged in or not', () => {
    const spoiled = medium('sdb1', [found(bundle)]);
    const codeOf = ({ first }: ReturnType<typeof look>) => first?.reason?.code;
    expect(codeOf(look({ media: [spoiled], failures: [failure()] }))).toBe('engine/needs-copy');
    expect(codeOf(look({}, known(damaged)))).toBe('engine/needs-copy');
    const elsewhere = failure({ isLast: false });
    expect(codeOf(look({ media: [spoiled], failures: [elsewhere] }))).toBe('media/blob-damaged');
  });

  it('asks for an undamaged copy, names the medium with the damaged one, and says how to give the release up', () => {
    expect(told(look({}, known(damaged)).first)).toMatchObject({
      phase: 'held',
      hold: 'media',
      degraded: { code: 'engine/needs-copy' },
      reason: {
        code: 'engine/needs-copy',
        message: `ocp 4.13.7 needs an undamaged copy. Blob ${etcdLayer.slice(0, 19)}… was damaged on sdb1. 1/2 images are present. Plug in another copy of it. Copy the bundle to a stick again, and check it with 'stickpin bundle verify --full'. 'stickpin unpin ocp@4.13.7' gives it up`,
      },
    });
  });

  it('counts the other bad blobs', () => {
    const other: BadBlob = { digest: digestOf('layer base'), why: 'truncated', medium: 'sdb1' };
    expect(textOf(look({ runtime: reachable() }, known(damaged, other)).first?.reason)).toContain(
      'was damaged on sdb1 (and 1 more)',
    );
  });

  it('asks for the stick with the other files where files were missing', () => {
    const { first } = look({}, known({ digest: etcdLayer, why: 'absent', medium: 'sdb1' }));
    expect(first?.reason && shownReason(first.reason)).toEqual({
      code: 'bundle/blob-missing',
      message: `ocp 4.13.7 still lacks 1 layer (10 MiB). The first layer is ${etcdLayer}. 1/2 images are present. Plug in the stick that carries the rest`,
    });
  });

  it('asks for an undamaged copy also where it was ready before', () => {
    const { first } = look({}, stored(bundle, { readyAt: NOON, badBlobs: [damaged] }));
    expect(first?.reason && shownReason(first.reason)).toMatchObject({
      code: 'engine/image-missing',
      message: expect.stringMatching(/Blob sha256:\S+ was damaged on sdb1\. Plug in another copy/),
    });
  });
});
