import { describe, expect, it } from 'vitest';
import { parseImageRequest } from '../../../src/bundle/image-request.ts';

const digest = `sha256:${'5f'.repeat(32)}`;
const layout = (directory: string, selector: object) => ({ kind: 'layout', directory, selector });

describe('parseImageRequest', () => {
  it.each([
    ['quay.io/coreos/etcd:3.5', undefined, { kind: 'skopeo', location: 'docker://quay.io/coreos/etcd:3.5' }],
    [
      `quay.io/coreos/etcd:3.5@${digest}`,
      undefined,
      { kind: 'skopeo', location: `docker://quay.io/coreos/etcd@${digest}` },
    ],
    ['etcd=quay.io/coreos/etcd:3.5', 'etcd', { kind: 'skopeo', location: 'docker://quay.io/coreos/etcd:3.5' }],
    [
      'quay.io/a:1=docker://mirror.local:5000/a:1',
      undefined,
      { kind: 'skopeo', location: 'docker://mirror.local:5000/a:1' },
    ],
    ['quay.io/a:1=oci:/srv/layout', undefined, layout('/srv/layout', { kind: 'only' })],
    ['x=quay.io/a:1=oci:/srv/layout:v1', 'x', layout('/srv/layout', { kind: 'name', name: 'v1' })],
    [
      'quay.io/a:1=oci:/srv/layout:quay.io/a:1',
      undefined,
      layout('/srv/layout', { kind: 'name', name: 'quay.io/a:1' }),
    ],
    [`quay.io/a:1=oci:/srv/layout@${digest}`, undefined, layout('/srv/layout', { kind: 'digest', digest })],
    [`quay.io/a:1=oci:/srv/layout:@${digest}`, undefined, layout('/srv/layout', { kind: 'digest', digest })],
    ['quay.io/a:1=oci:/srv/layout:@2', undefined, layout('/srv/layout', { kind: 'position', position: 2 })],
    ['quay.io/a:1=oci:/srv/k=v/layout:x', undefined, layout('/srv/k=v/layout', { kind: 'name', name: 'x' })],
  ])('reads %s', (text, component, source) => {
    expect(parseImageRequest(text)).toMatchObject({ source, ...(component !== undefined && { component }) });
    expect(parseImageRequest(text).component).toBe(component);
  });

  it.each([
    ['etcd', 'domain/reference'],
    ['', 'domain/reference'],
    ['Etcd=quay.io/a:1', 'bundle/option'],
    ['quay.io/a:1=', 'bundle/option'],
    ['quay.io/a:1=/srv/layout', 'bundle/option'],
    ['quay.io/a:1=oci:', 'bundle/option'],
    ['quay.io/a:1=oci:/srv/layout:', 'bundle/option'],
  ])('refuses %j', (text, code) => {
    expect(() => parseImageRequest(text)).toThrow(expect.objectContaining({ code }));
  });
});

it('refuses a registry in upper case, which runtimes take for another one, with the name to write', () => {
  expect(() => parseImageRequest('etcd=Quay.IO/coreos/etcd:1')).toThrow(
    'Quay.IO/coreos/etcd:1 must be written as quay.io/coreos/etcd:1',
  );
  expect(() => parseImageRequest('quay.io/coreos/etcd:V1')).not.toThrow();
});
