import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { looseImagesIn } from '../../../../../src/domain/release/manifest-images.ts';

const metadata = { name: 'main', namespace: 'shop' };
const digest = `sha256:${'5f'.repeat(32)}`;

describe('looseImagesIn', () => {
  it('finds what custom resources, arguments and variables name', () => {
    const object = {
      kind: 'Prometheus',
      metadata,
      spec: {
        image: 'quay.io/prometheus/prometheus:v2.45.0',
        baseImage: 'prometheus:v2',
        sidecar: { image: { registry: 'quay.io', repository: 'x/side', tag: 1.5 } },
        proxyImage: { repository: 'x/proxy', tag: 'v1' },
        args: ['--reloader=quay.io/x/reloader:1', '--name=web'],
        env: [{ name: 'RELATED', value: `quay.io/x/app@${digest}` }],
      },
    };
    const owner = 'Prometheus shop/main';
    expect(looseImagesIn({ kind: 'List', items: [object] })).toEqual([
      { owner, field: 'spec.image', image: 'quay.io/prometheus/prometheus:v2.45.0' },
      { owner, field: 'spec.baseImage', image: 'prometheus:v2' },
      { owner, field: 'spec.sidecar.image', image: 'quay.io/x/side:1.5' },
      { owner, field: 'spec.proxyImage', image: 'x/proxy:v1' },
      { owner, field: 'spec.args[0]', image: 'quay.io/x/reloader:1' },
      { owner, field: 'spec.env[0].value', image: `quay.io/x/app@${digest}` },
    ]);
  });

  it('leaves out the images of pods, and finds the arguments of their containers', () => {
    const containers = [{ name: 'operator', image: 'quay.io/x/op:1', args: ['--image=quay.io/x/run:1'] }];
    const volumes = [{ name: 'model', image: { reference: 'quay.io/x/model:1' } }];
    const template = { spec: { containers, volumes } };
    expect(looseImagesIn({ kind: 'Deployment', metadata, spec: { template } })).toEqual([
      { owner: 'Deployment shop/main', field: 'spec.template.spec.containers[0].args[0]', image: 'quay.io/x/run:1' },
    ]);
  });

  it.each([
    ['schemas', { kind: 'CustomResourceDefinition', metadata, spec: { default: { image: 'quay.io/x/a:1' } } }],
    ['status', { kind: 'Pod', metadata, status: { containerStatuses: [{ image: 'quay.io/x/a:1' }] } }],
    [
      'texts',
      { kind: 'ConfigMap', metadata, data: { a: 'use quay.io/x/a:1', b: 'quay.io/x/a', c: 'x\nquay.io/x/a:1' } },
    ],
    [
      'addresses',
      { kind: 'X', metadata, spec: { a: 'https://quay.io/x:1', b: '10.0.0.1:80', c: 'host.io:80', d: 'a:1' } },
    ],
    ['other images', { kind: 'X', metadata, spec: { image: 'disk.qcow2', iconImage: 'data:image/png;base64,xx' } }],
  ])('finds nothing in %s', (_name, object) => {
    expect(looseImagesIn(object)).toEqual([]);
  });

  it('takes any value, and objects that contain themselves or are very deep', () => {
    fc.assert(fc.property(fc.anything(), (value) => Array.isArray(looseImagesIn(value))));
    const loop: Record<string, unknown> = { kind: 'X', metadata, image: 'quay.io/x/a:1' };
    loop.self = [loop];
    expect(looseImagesIn(loop)).toHaveLength(1);
    let deep: unknown = { image: 'quay.io/x/a:1' };
    for (let level = 0; level < 100_000; level += 1) deep = { deep };
    expect(looseImagesIn(deep)).toEqual([]);
  });
});
