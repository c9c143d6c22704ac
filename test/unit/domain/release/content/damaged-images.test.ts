import { describe, expect, it } from 'vitest';
import type { ImageContent, RuntimeContainer } from '../../../../../src/domain/model/image.ts';
import type { ContentFault } from '../../../../../src/domain/model/reason.ts';
import { type DamageContext, damagedImages } from '../../../../../src/domain/release/damaged-images.ts';
import { NO_CHECKS } from '../../../../../src/domain/state/checks.ts';
import { allListed, digestOf, NOON, referenceOf, stored, verified } from '../../../../support/daemon/scenario.ts';

const bundle = stored(verified(), { readyAt: 1, activatedAt: 2 });
const layerOf = (name: string) => digestOf(`layer ${name}`);
const manifestOf = (name: string) => digestOf(`image ${name}`);
const truncated = (name: string): ContentFault => ({ kind: 'blob', digest: layerOf(name), why: 'truncated' });
const broken = (...faults: ContentFault[]): ImageContent => ({ kind: 'broken', faults });
const whole: ImageContent = { kind: 'whole', by: 'bytes' };
const everything = new Set([manifestOf('etcd'), manifestOf('api'), ...['base', 'etcd', 'api'].map(layerOf)]);

const container = (over: Partial<RuntimeContainer> = {}): RuntimeContainer => ({
  containerId: 'c1',
  key: 'pod',
  attempt: 0,
  imageNames: [referenceOf('etcd')],
  state: 'running',
  startedAt: 1,
  exitCode: 0,
  ...over,
});

/** `etcd` has a truncated layer of its own, `api` is whole, and all blobs are at hand. */
function context(over: Partial<DamageContext> & { contents?: Record<string, ImageContent> } = {}): DamageContext {
  const { contents = { etcd: broken(truncated('etcd')), api: whole }, ...rest } = over;
  const results = new Map(
    Object.entries(contents).map(([name, content]) => [referenceOf(name), { at: NOON, content }] as const),
  );
  return {
    releases: [{ bundle, isTrusted: true }],
    images: allListed(bundle),
    containers: [],
    supply: { availableBlobs: everything, envelopes: new Set() },
    online: false,
    ...rest,
    checks: { ...NO_CHECKS, results, ...rest.checks },
  };
}
const without = (...names: string[]) => ({
  availableBlobs: new Set([...everything].filter((digest) => !names.map(layerOf).includes(digest))),
  envelopes: new Set([bundle.bundleId]),
});
const nexts = (given: DamageContext) =>
  Object.fromEntries(damagedImages(given).map(({ image, next }) => [image.component ?? '', next.kind]));

describe('a damaged image', () => {
  it('is removed with the exited containers that hold it when all its blobs are at hand', () => {
    const containers = [container({ state: 'exited' }), container({ containerId: 'c2', imageNames: ['other'] })];
    const imageId = digestOf(`id ${referenceOf('etcd')}`);
    expect(damagedImages(context({ containers }))).toMatchObject([
      { bundles: [bundle], isPresent: true, next: { kind: 'heal', removal: { imageId, containerIds: ['c1'] } } },
    ]);
  });

  const rows: [string, Parameters<typeof context>[0], Record<string, string>][] = [
    ['stays when one of its layers is nowhere', { supply: without('etcd') }, { etcd: 'plug-in' }],
    ['goes when the layer that is nowhere is in an image that is whole', { supply: without('base') }, { etcd: 'heal' }],
    [
      'stays when that image was not checked',
      { supply: without('base'), contents: { etcd: broken(truncated('etcd')) } },
      { etcd: 'plug-in' },
    ],
    ['stays for a registry that may be out of reach', { supply: without('etcd'), online: true }, { etcd: 'plug-in' }],
    [
      'goes for a registry when no container can be made from it',
      {
        supply: without('etcd'),
        online: true,
        contents: { etcd: broken({ kind: 'layer-absent', digest: layerOf('etcd') }), api: whole },
      },
      { etcd: 'heal' },
    ],
    [
      'stays all the same when a registry is not allowed',
      {
        supply: without('etcd'),
        contents: { etcd: broken({ kind: 'layer-absent', digest: layerOf('etcd') }), api: whole },
      },
      { etcd: 'plug-in' },
    ],
    ['stays while a container runs from it', { containers: [container()] }, { etcd: 'in-use' }],
    ['stays while a container is made from it', { containers: [container({ state: 'other' })] }, { etcd: 'in-use' }],
    [
      'stays while a container mounts it',
      { containers: [container({ imageNames: [], volumeImages: [referenceOf('etcd')] })] },
      { etcd: 'in-use' },
    ],
    ['stays while containers are not known', { containers: undefined }, { etcd: 'look' }],
    [
      'stays while the volumes of a container are not known',
      { containers: [container({ imageNames: ['other'], volumeImages: 'unknown' })] },
      { etcd: 'look' },
    ],
    [
      'stays when its release is not trusted any more',
      { releases: [{ bundle, isTrusted: false }] },
      { etcd: 'plug-in' },
    ],
    [
      'stays when the preload of its release was cancelled',
      { releases: [{ bundle: { ...bundle, cancelled: { at: 1, media: [] } }, isTrusted: true }] },
      { etcd: 'cancelled' },
    ],
    [
      'is none of ours when its release is retired',
      { releases: [{ bundle: { ...bundle, retiredAt: 3 }, isTrusted: true }] },
      {},
    ],
    ['is left alone when it was not looked at', { contents: {} }, {}],
    [
      'is not one that could not be looked at',
      { contents: { etcd: { kind: 'unknown', reason: { code: 'runtime/config', message: 'x' } } } },
      {},
    ],
    [
      'goes together with another one that has the same damage',
      { contents: { etcd: broken(truncated('base')), api: broken(truncated('base')) } },
      { etcd: 'heal', api: 'heal' },
    ],
    [
      'stays when the other one that has the same damage stays',
      {
        contents: { etcd: broken(truncated('base')), api: broken(truncated('base'), truncated('api')) },
        containers: [container()],
      },
      { etcd: 'in-use', api: 'shared' },
    ],
    [
      'goes when the one that stays has other damage',
      { contents: { etcd: broken(truncated('etcd')), api: broken(truncated('api')) }, containers: [container()] },
      { etcd: 'in-use', api: 'heal' },
    ],
  ];
  it.each(rows)('%s', (_what, over, expected) => {
    expect(nexts(context(over))).toEqual(expected);
  });

  it('is left as it is after it was pulled again twice', () => {
    const given = context();
    const tried = (times: number) => ({
      ...given,
      checks: { ...given.checks, healings: new Map([[referenceOf('etcd'), times]]) },
    });
    expect(nexts(tried(1))).toEqual({ etcd: 'heal' });
    expect(nexts(tried(2))).toEqual({ etcd: 'give-up' });
  });

  it('that is not listed is forgotten and pulled, whatever shares the damage', () => {
    const contents: Record<string, ImageContent> = {
      etcd: { kind: 'absent', faults: [truncated('base')] },
      api: broken(truncated('base')),
    };
    const images = allListed(bundle).filter(({ repoDigests }) => repoDigests.includes(referenceOf('api')));
    const containers = [container({ imageNames: [referenceOf('api')] })];
    expect(damagedImages(context({ contents, images, containers }))).toMatchObject([
      { isPresent: false, next: { kind: 'heal', removal: undefined } },
      { isPresent: true, next: { kind: 'in-use' } },
    ]);
  });

  it('names all releases that have it', () => {
    const next = stored(verified({ version: '4.13.8', sequence: 8 }), { readyAt: 1 });
    const releases = [bundle, next].map((one) => ({ bundle: one, isTrusted: true }));
    expect(damagedImages(context({ releases }))).toMatchObject([{ bundles: [bundle, next] }]);
  });
});
