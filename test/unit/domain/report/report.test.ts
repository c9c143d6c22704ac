import { describe, expect, it } from 'vitest';
import { renderList } from '../../../../src/cli/output/render/render-status.ts';
import { reportOf } from '../../../../src/domain/report/report.ts';
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
  refused,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified();
const report = (over: Partial<Scene>, bundles: readonly StoredBundle[] = []) => {
  const observed = observation(over);
  const progress = { doneBytes: 3, totalBytes: 9, bytesPerSecond: 1.6, waitingTransfers: 0 };
  return reportOf({ observed, memory: observed, assessment: judge(observed, bundles).assessment }, progress);
};

describe('reportOf', () => {
  it("lists bundles that can't be recorded with the reason, and no bundle twice", () => {
    const obstacle = { code: 'store/read-only', message: '/var/lib/stickpin is read-only' };
    const media = [medium('sdb1', [found(bundle)]), medium('sdc1', [found(bundle)])];
    expect(report({ media, obstacle }).bundles).toEqual([
      {
        bundleId: bundle.bundleId,
        name: 'ocp',
        version: '4.13.7',
        sequence: 7,
        phase: 'detected',
        reason: obstacle,
        signedBy: ['factory-2026'],
        media: ['sdb1', 'sdc1'],
        images: { total: 2, present: 0, pinned: 0 },
        sizeBytes: bundle.payload.totals.sizeBytes,
      },
    ]);
    expect(report({ media, obstacle }, [stored(bundle)]).bundles).toHaveLength(1);
    expect(report({ media, obstacle: { code: 'media/read', message: 'bad' } }).bundles).toEqual([]);
  });

  it('names one of two bundles of one version by its digest in every command', () => {
    const bad = { digest: digestOf('layer etcd'), why: 'damaged', medium: 'sdb1' } as const;
    const one = stored(verified({ sequence: 6, images: { etcd: ['etcd'] } }), { badBlobs: [bad] });
    const other = stored(verified({ images: { api: ['api'] }, schedule: 'manual' }), { readyAt: 1 });
    const runtime = reachable({ images: allListed(other) });
    const [first] = report({ runtime }, [one, other]).bundles;
    expect(first?.reason?.message).toContain(`'stickpin unpin ${one.bundleId}' gives it up`);
    const alone = report({ runtime }, [one, { ...other, retiredAt: 2 }]).bundles;
    expect(alone[0]?.reason?.message).toContain("'stickpin unpin ocp@4.13.7'");
    const text = JSON.stringify(report({ runtime }, [one, other]));
    expect(text).not.toContain("ocp@4.13.7'");
    const list = renderList(report({ runtime }, [one, other]));
    expect(list).toContain(`To activate it now, run 'stickpin activate ${other.bundleId}'`);
    expect(list).toContain(`ocp@4.13.7 (${one.bundleId.slice(0, 19)}…)`);
    expect(list).not.toMatch(/stickpin \w+ ocp@/);
  });

  it('names a release that another node runs and no node can give', () => {
    const release = { name: 'ocp', version: '4.14.0', bundle: 'a'.repeat(16), phase: 'proven', current: true } as const;
    const nodes = [{ name: 'worker-2', isAbsent: false, status: { version: 1 as const, releases: [release] } }];
    expect(report({ fleet: { self: 'worker-1', nodes, peers: [] } }).wanted).toEqual([
      {
        name: 'ocp',
        version: '4.14.0',
        nodes: ['worker-2'],
        message: 'ocp 4.14.0 is loaded on worker-2, and no node can give it: plug its stick into any node.',
      },
    ]);
    expect(report({}).wanted).toEqual([]);
  });

  it('has the number of images, the times, the media and the phase', () => {
    const images = [listed(referenceOf('etcd'), false)];
    const runtime = reachable({ images });
    expect(report({ media: [medium('sdb1', [found(bundle)])], runtime }, [stored(bundle)])).toMatchObject({
      operation: 'preloading',
      runtime: { reachable: true, name: 'cri-o 1.36.3' },
      media: [{ medium: 'sdb1', state: 'read', bundles: 1 }],
      bundles: [
        {
          bundleId: bundle.bundleId,
          name: 'ocp',
          version: '4.13.7',
          sequence: 7,
          phase: 'preloading',
          signedBy: ['factory-2026'],
          media: ['sdb1'],
          sources: ['sdb1'],
          images: { total: 2, present: 1, pinned: 0 },
          adoptedAt: '2026-03-10T12:00:00.000Z',
        },
      ],
      progress: { doneBytes: 3, totalBytes: 9, bytesPerSecond: 2 },
    });
  });

  it('counts what the runtime reports as pinned, of a retired release too', () => {
    const countsWith = (pins: readonly boolean[]) => {
      const images = bundle.contents.images.map(({ reference }, at) => listed(reference, pins[at]));
      return report({ runtime: reachable({ images }) }, [stored(bundle, { readyAt: 1, retiredAt: 2 })]).bundles[0];
    };
    const given = countsWith([false, false]);
    expect(given).toMatchObject({ phase: 'retired', images: { total: 2, present: 2, pinned: 0 } });
    // Another release has one of its images.
    expect(countsWith([true, false])?.images).toEqual({ total: 2, present: 2, pinned: 1 });
  });

  it('has the hold with its reason, rejections and an unreachable runtime', () => {
    const media = [medium('sdb1', [refused('bad signature')])];
    const down = report({ media, runtime: { kind: 'unreachable', reason: 'no socket' } }, [stored(bundle)]);
    expect(down.runtime).toEqual({ reachable: false, reason: 'no socket' });
    const unlisted = { kind: 'unlisted', name: 'cri-o 1.36.3', reason: 'database is locked' } as const;
    expect(report({ media, runtime: unlisted }, [stored(bundle)]).runtime).toEqual({
      reachable: true,
      name: 'cri-o 1.36.3',
      reason: 'database is locked',
    });
    expect(down.bundles[0]).not.toHaveProperty('sources');
    expect(down.bundles[0]).toMatchObject({ phase: 'held', hold: 'runtime', reason: { code: 'runtime/unreachable' } });
    expect(down.rejected).toEqual([
      {
        medium: 'sdb1',
        path: 'stickpin/ocp-4.13.7-amd64',
        reason: { code: 'bundle/signature', message: 'bad signature' },
      },
    ]);
  });

  it.each<[is: string, over: Partial<Scene>, bundles: StoredBundle[]]>([
    ['idle', {}, []],
    ['verifying', { media: [medium('sdb1', { kind: 'mounted' })] }, []],
    ['verifying', { media: [medium('sdb1', [found(bundle)])] }, []],
    ['preloading', { running: [pullOf(bundle, 'etcd')] }, [stored(bundle)]],
    [
      'activating',
      {
        runtime: reachable({ images: allListed(bundle) }),
        running: [{ kind: 'activate', bundleId: bundle.bundleId }],
      },
      [stored(bundle, { readyAt: NOON })],
    ],
  ])('has the operation %s', (is, over, bundles) => {
    expect(report(over, bundles).operation).toBe(is);
  });
});
