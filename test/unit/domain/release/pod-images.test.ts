import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { placedPodImagesIn, podImagesIn } from '../../../../src/domain/release/manifest-images.ts';

const spec = { containers: [{ name: 'app', image: 'quay.io/x/app:1' }] };
const metadata = { name: 'web', namespace: 'shop' };
const template = { metadata: { labels: { app: 'web' } }, spec };

describe('podImagesIn', () => {
  it.each([
    ['Pod', { kind: 'Pod', metadata, spec }],
    ...['Deployment', 'StatefulSet', 'DaemonSet', 'ReplicaSet', 'ReplicationController', 'Job'].map(
      (kind): [string, object] => [kind, { kind, metadata, spec: { template } }],
    ),
    ['CronJob', { kind: 'CronJob', metadata, spec: { jobTemplate: { spec: { template } } } }],
    ['PodTemplate', { kind: 'PodTemplate', metadata, template }],
    [
      'Operated',
      { kind: 'Operated', metadata, spec: { install: { deployments: [{ name: 'x', spec: { template } }] } } },
    ],
  ] satisfies [string, object][])('finds the image of a %s', (kind, object) => {
    const expected = [{ usedBy: `${kind} shop/web, container app`, image: 'quay.io/x/app:1' }];
    expect(podImagesIn(object)).toEqual(expected);
    expect(podImagesIn({ kind: 'List', metadata: {}, items: [object] })).toEqual(expected);
  });

  it('finds what an operator lists as related, with the bundle itself', () => {
    const relatedImages = [
      { name: 'operator', image: 'quay.io/x/op@sha256:1' },
      { name: '', image: 'quay.io/x/bundle@sha256:2' },
      { name: 'none', image: '' },
    ];
    const bundle = { schema: 'olm.bundle', name: 'op.v1', image: 'quay.io/x/bundle@sha256:2', relatedImages };
    expect(placedPodImagesIn(bundle)).toEqual([
      {
        owner: 'olm.bundle op.v1',
        usedBy: 'olm.bundle op.v1, bundle',
        field: 'image',
        image: 'quay.io/x/bundle@sha256:2',
      },
      {
        owner: 'olm.bundle op.v1',
        usedBy: 'olm.bundle op.v1, related image operator',
        field: 'relatedImages[0].image',
        image: 'quay.io/x/op@sha256:1',
      },
      {
        owner: 'olm.bundle op.v1',
        usedBy: 'olm.bundle op.v1, related image',
        field: 'relatedImages[1].image',
        image: 'quay.io/x/bundle@sha256:2',
      },
    ]);
    const version = { kind: 'ClusterServiceVersion', metadata, spec: { relatedImages } };
    expect(podImagesIn(version).map(({ image }) => image)).toEqual([
      'quay.io/x/op@sha256:1',
      'quay.io/x/bundle@sha256:2',
    ]);
    expect(podImagesIn({ schema: 'olm.package', name: 'op', image: 'x' })).toEqual([]);
  });

  it.each(['kyverno.io/v1', 'policies.kyverno.io/v1', 'constraints.gatekeeper.sh/v1beta1'])(
    'finds nothing in a policy of %s',
    (apiVersion) => {
      expect(
        podImagesIn({ kind: 'List', items: [{ apiVersion, kind: 'Policy', metadata, spec: { pattern: { spec } } }] }),
      ).toEqual([]);
    },
  );

  it('finds init and ephemeral containers, image volumes and policies', () => {
    const object = {
      kind: 'Pod',
      metadata: { generateName: 'web-' },
      spec: {
        containers: [
          { name: 'app', image: 'a:1', imagePullPolicy: 'Always' },
          { image: 'b:1' },
          { name: 'triggered', image: ' ' },
        ],
        initContainers: [{ name: 'init', image: 'c:1', imagePullPolicy: '' }],
        ephemeralContainers: [{ name: 'debug', image: 'd:1' }],
        volumes: [
          { name: 'data', image: { reference: 'e:1', pullPolicy: 'Never' } },
          { name: 'tmp', emptyDir: {} },
        ],
      },
    };
    expect(podImagesIn(object)).toEqual([
      { usedBy: 'Pod web-, init container init', image: 'c:1' },
      { usedBy: 'Pod web-, container app', image: 'a:1', pullPolicy: 'Always' },
      { usedBy: 'Pod web-, container (no name)', image: 'b:1' },
      { usedBy: 'Pod web-, container triggered', image: '' },
      { usedBy: 'Pod web-, ephemeral container debug', image: 'd:1' },
      { usedBy: 'Pod web-, volume data', image: 'e:1', pullPolicy: 'Never' },
    ]);
  });

  it('finds nothing in the schema of a CustomResourceDefinition, nor in texts', () => {
    const properties = { containers: { type: 'array', items: { properties: { image: { type: 'string' } } } } };
    expect(podImagesIn({ kind: 'CustomResourceDefinition', metadata, spec: { schema: { properties } } })).toEqual([]);
    expect(podImagesIn({ kind: 'ConfigMap', metadata, data: { pod: JSON.stringify({ spec }) } })).toEqual([]);
  });

  it('ends for an object that contains itself, and for one that is very deep', () => {
    const loop: Record<string, unknown> = { kind: 'Pod', metadata, spec };
    loop.self = [loop];
    expect(podImagesIn(loop)).toHaveLength(1);
    let deep: unknown = spec;
    for (let level = 0; level < 100_000; level += 1) deep = { deep };
    expect(podImagesIn(deep)).toEqual([]);
  });

  it('takes any value', () => {
    fc.assert(fc.property(fc.anything(), (value) => Array.isArray(podImagesIn(value))));
    expect(
      podImagesIn({ containers: ['x', null, { name: 5 }], volumes: [{ image: 'x' }, 3], initContainers: 'x' }),
    ).toEqual([]);
  });
});
