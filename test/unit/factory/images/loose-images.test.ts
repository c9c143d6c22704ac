import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { imagesInText, looseImagesIn } from '../../../../src/factory/images/loose-images.ts';

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
      { owner, field: 'spec.sidecar.image.repository', image: 'quay.io/x/side:1.5' },
      { owner, field: 'spec.proxyImage.repository', image: 'x/proxy:v1' },
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

  const imagesOf = (spec: unknown) => looseImagesIn({ kind: 'X', metadata, spec }).map(({ image }) => image);

  it('takes any reference where the name says that it is an image', () => {
    expect(
      imagesOf({
        image: 'rancher/k3s-upgrade',
        baseImage: 'centos',
        imageName: 'quay.io/x/a',
        images: ['redis:7', 'plain'],
        env: [
          { name: 'SIDECAR_IMAGE', value: 'busybox' },
          { name: 'X', value: 'busybox' },
        ],
        args: ['--engine-image', 'x/engine', '--helper-image=helper', '--name', 'web'],
      }),
    ).toEqual(['rancher/k3s-upgrade', 'centos', 'quay.io/x/a', 'redis:7', 'busybox', 'x/engine', 'helper']);
  });

  it('joins repository with image, tag or version', () => {
    expect(
      imagesOf([
        { repository: 'nvcr.io/nvidia', image: 'k8s-device-plugin', version: 'v0.17.1' },
        { repository: 'nvcr.io/nvidia', image: 'driver', version: `sha256:${'5f'.repeat(32)}` },
        { repository: 'nvcr.io/nvidia', image: 'toolkit' },
        { registry: 'quay.io', repository: 'x/a', version: 2 },
        { repository: 'quay.io/x', image: 'quay.io/y/b:1', tag: '2' },
        { repository: 'https://charts.example.com', version: '1.0.0' },
        { repository: 'x/alone' },
      ]),
    ).toEqual([
      'nvcr.io/nvidia/k8s-device-plugin:v0.17.1',
      `nvcr.io/nvidia/driver@${digest}`,
      'nvcr.io/nvidia/toolkit',
      'quay.io/x/a:2',
      'quay.io/y/b:1',
    ]);
  });

  it('finds references in longer texts: behind =, commas and line ends', () => {
    expect(
      imagesOf({
        versions: `3.9.0=quay.io/x/kafka:3.9.0\n4.0.0=quay.io/x/kafka@${digest}`,
        list: 'quay.io/x/a:1,x/b:2;redis:7',
        script: 'docker run --rm "quay.io/x/c:1"; see https://quay.io/x/d:1.',
        template:
          '{{ if x }}\nimage: busybox\n"initImage": "x/init",\n- sideImage: side # beside\nthe image: none of it\n',
        disk: 'docker://quay.io/x/disk:1',
        taint: 'node-role.kubernetes.io/master:NoSchedule',
      }),
    ).toEqual([
      'quay.io/x/kafka:3.9.0',
      `quay.io/x/kafka@${digest}`,
      'quay.io/x/a:1',
      'x/b:2',
      'quay.io/x/c:1',
      'busybox',
      'x/init',
      'side',
      'quay.io/x/disk:1',
    ]);
    expect(imagesInText('a: quay.io/x/a:1\nquay.io/x/a:1')).toEqual(['quay.io/x/a:1']);
  });

  it('reads documents within documents, two levels deep', () => {
    const nested = (levels: number): unknown =>
      levels === 0 ? { image: { repository: 'x/deep', tag: '1' } } : { text: JSON.stringify(nested(levels - 1)) };
    const of = (levels: number) =>
      looseImagesIn({ kind: 'ConfigMap', metadata, data: nested(levels) }, (text) => [JSON.parse(text)]);
    const owner = 'ConfigMap shop/main';
    expect(of(1)).toEqual([{ owner, field: 'data.text, image.repository', image: 'x/deep:1' }]);
    expect(of(2)).toHaveLength(1);
    expect(of(3)).toEqual([]);
  });

  it('finds no image in a policy but a whole one, which a rule may insert', () => {
    const containers = [
      { name: '*', image: '!*:latest' },
      { name: 'side', image: 'quay.io/x/side:1' },
      { name: 'own', image: '{{ element.image }}' },
    ];
    const policy = {
      apiVersion: 'kyverno.io/v1',
      kind: 'ClusterPolicy',
      metadata,
      spec: { pattern: { spec: { containers } } },
    };
    expect(looseImagesIn(policy).map(({ image }) => image)).toEqual(['quay.io/x/side:1']);
  });

  it('finds the defaults of custom resources, and nothing in what describes them', () => {
    const image = { description: 'An image as quay.io/x/a:1', type: 'string', default: 'x/b' };
    const schema = { openAPIV3Schema: { properties: { image, description: { default: 'quay.io/x/c:1' } } } };
    const crd = { kind: 'CustomResourceDefinition', metadata, spec: { schema } };
    expect(looseImagesIn(crd).map(({ image: found }) => found)).toEqual(['x/b', 'quay.io/x/c:1']);
  });

  it.each([
    ['status', { kind: 'Pod', metadata, status: { containerStatuses: [{ image: 'quay.io/x/a:1' }] } }],
    [
      'texts',
      { kind: 'ConfigMap', metadata, data: { a: 'use quay.io/x/a', b: 'quay.io/x/a', c: 'at 12:30', d: 'user:x' } },
    ],
    [
      'addresses',
      { kind: 'X', metadata, spec: { a: 'https://quay.io/x:1', b: '10.0.0.1:80', c: 'host.io:80', d: 'a:1' } },
    ],
    ['other images', { kind: 'X', metadata, spec: { image: 'disk.qcow2', iconImage: 'data:image/png;base64,xx' } }],
    ['patterns', { kind: 'X', metadata, spec: { image: '$(params.image)', otherImage: 'quay.io/x/*' } }],
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
