import { describe, expect, it } from 'vitest';
import { arrivingImages } from '../../../../src/domain/decide/catalog.ts';
import { sourcesOf } from '../../../../src/domain/report/texts/short-texts.ts';
import {
  digestOf,
  found,
  judge,
  layer,
  medium,
  observation,
  POLICY,
  pinsOf,
  pullOf,
  reachable,
  spoken,
  stored,
  verified,
} from '../../../support/daemon/scenario.ts';

const bundle = verified();
const absent = (...names: readonly string[]) =>
  names.map((name) => ({ digest: layer(name).digest, why: 'absent' as const }));
const envelope = { ...found(bundle, absent('base', 'etcd', 'api')), isEnvelope: true };
/** Has everything but the layer that only `api` needs. */
const half = found(bundle, absent('api'));
const runtime = reachable({ renderedPins: pinsOf(bundle) });
const pinsRequested = { references: pinsOf(bundle), unpinned: '', attempts: 1, at: 0 };

describe('supply', () => {
  it('finds a blob on another medium, in another bundle or on the disk of the node', () => {
    const other = verified({ version: '4.13.8', sequence: 8, images: { api: ['base', 'api'] } });
    const images = (over: Parameters<typeof observation>[0]) =>
      judge(observation(over), [stored(bundle)]).first?.pullableImages.map(({ component }) => component);
    expect(images({ media: [medium('sdb1', [half])] })).toEqual(['etcd']);
    expect(images({ media: [medium('sdb1', [half]), medium('sdc1', [found(other)])] })).toEqual(['etcd', 'api']);
    expect(images({ media: [medium('sdb1', [half])], localBlobs: new Set([layer('api').digest]) })).toEqual([
      'etcd',
      'api',
    ]);
  });

  it('pulls the images of an envelope online, without a mirror, and available ones from our registry', () => {
    const alone = judge(observation({ media: [medium('drop', [envelope])], runtime, pinsRequested }), [stored(bundle)]);
    expect(spoken(alone.decision.effects)).toEqual(['pull etcd']);
    expect(alone.decision.effects).toMatchObject([{ task: { online: true } }]);
    expect(alone.first && sourcesOf(alone.first)).toEqual(['quay.example.com']);
    const looking = [medium('drop', [envelope]), medium('sdb1', { kind: 'mounted' })];
    expect(
      spoken(judge(observation({ media: looking, runtime, pinsRequested }), [stored(bundle)]).decision.effects),
    ).toEqual(['read-medium 7-sdb1']);
    const media = [medium('drop', [envelope]), medium('sdb1', [half])];
    const both = judge(observation({ media, runtime, pinsRequested }), [stored(bundle)]);
    expect(both.first?.onlineImages.map(({ component }) => component)).toEqual(['api']);
    expect(both.first && sourcesOf(both.first)).toEqual(['sdb1', 'quay.example.com']);
  });

  it('uses no registry when that is forbidden, or when the bundle only lacks blobs', () => {
    const policy = { ...POLICY, preload: { ...POLICY.preload, online: false } };
    const forbidden = judge(observation({ media: [medium('drop', [envelope])] }), [stored(bundle)], policy);
    expect(forbidden.first).toMatchObject({ hold: 'media', reason: { code: 'engine/offline' } });
    const lacking = found(bundle, absent('base', 'etcd', 'api'));
    const cut = judge(observation({ media: [medium('sdb1', [lacking])] }), [stored(bundle)]);
    expect(cut.first).toMatchObject({ hold: 'media', reason: { code: 'bundle/blob-missing' } });
  });

  it('counts only images with available layers as arriving, and expects no other layers', () => {
    const observed = observation({ media: [medium('drop', [envelope]), medium('sdb1', [half])] });
    const { assessment } = judge(observed, [stored(bundle)]);
    const arriving = arrivingImages(observed, assessment);
    expect([...arriving.images]).toEqual([digestOf('image etcd')]);
    expect([...arriving.layers.keys()]).toEqual([layer('base').digest, layer('etcd').digest]);
  });

  it('counts a running pull from our registry as arriving while its medium is away', () => {
    const observed = observation({ running: [pullOf(bundle, 'etcd')] });
    const { assessment } = judge(observed, [stored(bundle)]);
    expect([...arrivingImages(observed, assessment).images]).toEqual([digestOf('image etcd')]);
  });
});
