import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseRoute } from '../../../src/registry/route.ts';
import { digestOf } from '../../support/daemon/scenario.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const digest = digestOf('x');
const route = (path: string) => parseRoute(path, TOKEN);

describe('parseRoute', () => {
  it.each([
    ['/v2/', { kind: 'ping' }],
    ['/v2', { kind: 'ping' }],
    ['http://127.0.0.1:5317/v2/', { kind: 'ping' }],
    [`HTTP://[::1]:5317/v2/${TOKEN}/a/blobs/${digest}?ns=x`, { kind: 'blob', repository: 'a', digest }],
    [`https://example.com/v2/${TOKEN}/a/blobs/${digest}`, { kind: 'blob', repository: 'a', digest }],
    [
      `/v2/${TOKEN}/quay.io/coreos/etcd/manifests/${digest}`,
      { kind: 'manifest', repository: 'quay.io/coreos/etcd', reference: digest },
    ],
    [
      `/v2/${TOKEN}/quay.io/coreos/etcd/manifests/v3.5_a-1?ns=quay.io`,
      { kind: 'manifest', repository: 'quay.io/coreos/etcd', reference: 'v3.5_a-1' },
    ],
    [
      `/v2/${TOKEN}/localhost__5000/app/blobs/${digest}?ns=x`,
      { kind: 'blob', repository: 'localhost__5000/app', digest },
    ],
    [`/v2/${TOKEN}/a/blobs/sha256%3A${digest.slice(7)}`, { kind: 'blob', repository: 'a', digest }],
    [`/v2/${TOKEN}/%61/tags/list?n=3`, { kind: 'tags', repository: 'a' }],
    [`/v2/${TOKEN}/a/referrers/${digest}?artifactType=x/y`, { kind: 'referrers', repository: 'a', digest }],
    [
      `/v2/${TOKEN}/a/manifests/b/manifests/${digest}`,
      { kind: 'manifest', repository: 'a/manifests/b', reference: digest },
    ],
  ])('%s', (path, is) => {
    expect(route(path)).toEqual(is);
  });

  it.each([
    '',
    '/',
    '/v1/',
    'http://127.0.0.1:5317',
    'http://127.0.0.1:5317?/v2/',
    'ftp://127.0.0.1/v2/',
    '/v2/_catalog',
    `/v2/${TOKEN}`,
    `/v2/${TOKEN}/a/blobs/uploads/`,
    `/v2/${TOKEN}/a/tags/`,
    `/v2/${TOKEN}/tags/list`,
    `/v2/${TOKEN.replace('0', '1')}/a/blobs/${digest}`,
    `/v2/a/blobs/${digest}`,
    `/v2/${TOKEN}/../blobs/${digest}/`,
  ])('finds no route for %s', (path) => {
    expect(route(path)).toEqual({ kind: 'unknown' });
  });

  it.each([
    [`/v2/${TOKEN}/../blobs/${digest}`, 400, 'NAME_INVALID'],
    [`/v2/${TOKEN}/a/../../etc/blobs/${digest}`, 400, 'NAME_INVALID'],
    [`/v2/${TOKEN}/a/%2e%2e/blobs/${digest}`, 400, 'NAME_INVALID'],
    [`/v2/${TOKEN}/%zz/blobs/${digest}`, 400, 'NAME_INVALID'],
    [`/v2/${TOKEN}/a//b/blobs/${digest}`, 400, 'NAME_INVALID'],
    [`/v2/${TOKEN}/A/tags/list`, 400, 'NAME_INVALID'],
    [`/v2/${TOKEN}/a%00/referrers/${digest}`, 400, 'NAME_INVALID'],
    [`/v2/${TOKEN}/a/blobs/latest`, 400, 'DIGEST_INVALID'],
    [`/v2/${TOKEN}/a/blobs/..%2f..%2fetc%2fpasswd`, 400, 'DIGEST_INVALID'],
    [`/v2/${TOKEN}/a/referrers/sha256:12`, 400, 'DIGEST_INVALID'],
    [`/v2/${TOKEN}/a/manifests/sha256:totallywrong`, 400, 'DIGEST_INVALID'],
    [`/v2/${TOKEN}/a/blobs/sha512:${'a'.repeat(128)}`, 404, 'BLOB_UNKNOWN'],
    [`/v2/${TOKEN}/a/manifests/sha512:${'a'.repeat(128)}`, 404, 'MANIFEST_UNKNOWN'],
    [`/v2/${TOKEN}/a/manifests/.INVALID_MANIFEST_NAME`, 404, 'MANIFEST_UNKNOWN'],
    [`/v2/${TOKEN}/a/manifests/%`, 404, 'MANIFEST_UNKNOWN'],
    [`/v2/${TOKEN}/a/manifests/${'t'.repeat(129)}`, 404, 'MANIFEST_UNKNOWN'],
  ])('refuses %s', (path, status, code) => {
    expect(route(path)).toMatchObject({ kind: 'refused', status, code });
  });

  it('needs no token where the registry has none', () => {
    const plain = (path: string) => parseRoute(path, undefined);
    expect(plain('/v2/')).toEqual({ kind: 'ping' });
    expect(plain(`/v2/coreos/etcd/blobs/${digest}`)).toEqual({ kind: 'blob', repository: 'coreos/etcd', digest });
    expect(plain('/v2/a/tags/list?n=1')).toEqual({ kind: 'tags', repository: 'a' });
    expect(plain('/v2/_catalog')).toEqual({ kind: 'unknown' });
  });

  it('never throws and is fast, for any path', () => {
    const part = fc.constantFrom(
      '/',
      'v2',
      TOKEN,
      'manifests',
      'blobs',
      'tags/list',
      'referrers',
      '..',
      '%',
      '%2f',
      '--',
      '_',
      '__',
      digest,
      'a',
      '?',
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 12 }), (parts) => {
        const { kind, ...rest } = route(parts.join(''));
        if ('repository' in rest) expect(rest.repository).not.toMatch(/\.\.|%|^\/|\/\//);
        expect(['ping', 'manifest', 'blob', 'tags', 'referrers', 'refused', 'unknown']).toContain(kind);
      }),
    );
    const before = performance.now();
    route(`/v2/${TOKEN}/${'a-'.repeat(8_000)}!/manifests/x`);
    route(`/v2/${TOKEN}/${'/tags/list'.repeat(1_500)}/`);
    route(`/v2/${TOKEN}/${'/manifests'.repeat(1_500)}/`);
    expect(performance.now() - before).toBeLessThan(500);
  });
});
