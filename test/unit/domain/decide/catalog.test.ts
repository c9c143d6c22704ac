import { describe, expect, it } from 'vitest';
import { activationTarget } from '../../../../src/domain/assess/assess-order.ts';
import { catalogOf } from '../../../../src/domain/decide/catalog.ts';
import { bundleInWork } from '../../../../src/domain/decide/release-effects.ts';
import type { StoredBundle } from '../../../../src/domain/state/state.ts';
import {
  allListed,
  digestOf,
  found,
  judge,
  medium,
  NOON,
  observation,
  POLICY,
  pullOf,
  reachable,
  type Scene,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const newer = verified({ sequence: 8, version: '4.13.8' });
const etcd6 = { reference: `quay.example.com/ocp/etcd@${digestOf('etcd 6')}`, digest: digestOf('etcd 6') };
const older = verified({
  sequence: 6,
  version: '4.13.6',
  images: { etcd: ['base'] },
  imageOver: { etcd: { ...etcd6, tags: ['quay.example.com/ocp/etcd:stable', 'mirror.example.com/etcd:v6'] } },
});
const both = reachable({ images: [...allListed(newer), ...allListed(older)] });

function offered(over: Partial<Scene>, bundles: readonly StoredBundle[]) {
  const observed = observation(over);
  const { assessment } = judge(observed, bundles);
  const catalog = catalogOf(observed, assessment, POLICY);
  const tags = [...catalog].flatMap(([repository, entry]) =>
    [...entry.tags.keys()].map((tag) => `${repository}:${tag}`),
  );
  return {
    catalog,
    tags: tags.sort(),
    target: activationTarget(observed, assessment)?.bundle.payload.version,
  };
}

describe('catalogOf', () => {
  it('offers the manifests of all adopted bundles under their repositories, and no tag', () => {
    const { catalog, tags } = offered({}, [stored(older), stored(newer)]);
    expect([...catalog.keys()].sort()).toEqual(['quay.example.com/ocp/api', 'quay.example.com/ocp/etcd']);
    expect([...(catalog.get('quay.example.com/ocp/etcd')?.manifests ?? [])].sort()).toEqual(
      [digestOf('etcd 6'), digestOf('image etcd')].sort(),
    );
    expect(tags).toEqual([]);
  });

  it('offers what is attached to an image by tag and digest at all times', () => {
    const signature = {
      tag: `sha256-${etcd6.digest.slice(7)}.sig`,
      digest: digestOf('signature'),
      size: 9,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      blobs: [],
    };
    const signed = verified({ images: { etcd: [] }, imageOver: { etcd: { ...etcd6, attached: [signature] } } });
    const entry = offered({}, [stored(signed)]).catalog.get('quay.example.com/ocp/etcd');
    expect([...(entry?.tags ?? [])]).toEqual([[signature.tag, signature.digest]]);
    expect(entry?.manifests.has(signature.digest)).toBe(true);
  });

  it('offers nothing while nothing is adopted', () => {
    expect(offered({ media: [medium('sdb1', [found(newer)])] }, []).catalog.size).toBe(0);
  });

  it('offers the tags of the bundle that is ready for activation, also in repositories of their own', () => {
    const { catalog, tags } = offered({ runtime: both }, [stored(older)]);
    expect(tags).toEqual(['mirror.example.com/etcd:v6', 'quay.example.com/ocp/etcd:stable']);
    expect(catalog.get('mirror.example.com/etcd')?.tags.get('v6')).toBe(digestOf('etcd 6'));
    expect(catalog.get('mirror.example.com/etcd')?.manifests.has(digestOf('etcd 6'))).toBe(true);
  });

  it('offers the tags of the ready bundle, not of one before it that is due but not ready', () => {
    const { target, tags } = offered({ runtime: reachable({ images: allListed(newer) }) }, [
      stored(older),
      stored(newer),
    ]);
    expect(target).toBe('4.13.8');
    expect(tags).toEqual(['quay.example.com/ocp/api:4.13.8', 'quay.example.com/ocp/etcd:4.13.8']);
  });

  it('stays with the bundle whose activation runs, even if others become ready', () => {
    const running = [{ kind: 'activate', bundleId: newer.bundleId } as const];
    expect(offered({ runtime: both, running }, [stored(older), stored(newer)]).target).toBe('4.13.8');
  });

  it('offers tags of another stream while one waits after a failure, and of no older release of the same stream', () => {
    const task = { kind: 'activate', bundleId: newer.bundleId } as const;
    const failed = (retryAt: number) => [{ task, attempts: 1, retryAt, reason: { code: 'x', message: 'x' } }];
    const tools = verified({ name: 'tools', version: '1.0.0', images: { etcd: [] } });
    const runtime = reachable({ images: [...allListed(older), ...allListed(newer), ...allListed(tools)] });
    const bundles = [stored(older), stored(newer), stored(tools)];
    expect(offered({ runtime, failures: failed(NOON + 1) }, bundles).target).toBe('1.0.0');
    expect(offered({ runtime, failures: failed(NOON) }, bundles).target).toBe('4.13.8');
  });
});

describe('bundleInWork', () => {
  const inWork = (over: Partial<Scene>) => {
    const observed = observation(over);
    const { assessment } = judge(observed, [stored(older), stored(newer)]);
    return bundleInWork(observed, assessment)?.bundle.payload.version;
  };

  it('is the bundle of a running pull, or else the first one to be preloaded', () => {
    const media = [medium('sdb1', [found(older), found(newer)])];
    expect(inWork({ media, running: [pullOf(newer, 'etcd')] })).toBe('4.13.8');
    expect(inWork({ media })).toBe('4.13.6');
    expect(inWork({})).toBeUndefined();
    expect(inWork({ media, runtime: both })).toBeUndefined();
  });
});
