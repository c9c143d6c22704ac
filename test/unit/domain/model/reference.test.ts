import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatReference,
  isCanonicalReference,
  lastPathPart,
  parseReference,
  repositoryOf,
} from '../../../../src/domain/model/reference.ts';
import { AppError } from '../../../../src/platform/app-error.ts';

const digest = `sha256:${'5f'.repeat(32)}`;

describe('parseReference', () => {
  it.each([
    ['quay.io/coreos/etcd:3.5.9', { registry: 'quay.io', repository: 'quay.io/coreos/etcd', tag: '3.5.9' }],
    ['QUAY.io/coreos/etcd:V1', { registry: 'quay.io', repository: 'quay.io/coreos/etcd', tag: 'V1' }],
    ['Index.Docker.IO/nginx', { registry: 'docker.io', repository: 'docker.io/library/nginx' }],
    ['[FE80::1]:5000/a', { registry: '[fe80::1]:5000', repository: '[fe80::1]:5000/a' }],
    ['localhost/a', { registry: 'localhost', repository: 'localhost/a' }],
    ['127.0.0.1:5000/a/b', { registry: '127.0.0.1:5000', repository: '127.0.0.1:5000/a/b' }],
    ['[::1]:5000/a:x', { registry: '[::1]:5000', repository: '[::1]:5000/a', tag: 'x' }],
    [`quay.io/a@${digest}`, { registry: 'quay.io', repository: 'quay.io/a', digest }],
    [`quay.io/a:1@${digest}`, { registry: 'quay.io', repository: 'quay.io/a', tag: '1', digest }],
    ['docker.io/nginx:1', { registry: 'docker.io', repository: 'docker.io/library/nginx', tag: '1' }],
    ['index.docker.io/org/app', { registry: 'docker.io', repository: 'docker.io/org/app' }],
    ['quay.io/a__b/c-d--e.f', { registry: 'quay.io', repository: 'quay.io/a__b/c-d--e.f' }],
  ])('reads %s', (text, expected) => {
    expect(parseReference(text)).toEqual(expected);
  });

  it.each([
    ['etcd', 'registry'],
    ['coreos/etcd:3.5', 'registry'],
    ['/etcd', 'registry'],
    ['registry.example.com', 'registry'],
    ['registry.example.com:5000', 'registry'],
    ['registry.example.com/', "''"],
    ['quay.io/', "''"],
    ['quay.io/../../etc/passwd', "'..'"],
    ['quay.io/Upper', "'Upper'"],
    ['quay.io/a//b', "''"],
    ['quay.io/a:', "''"],
    ['quay.io/a:b:c', "'b:c'"],
    ['quay.io/a:-x', "'-x'"],
    [`quay.io/a@${digest}@${digest}`, 'behind @'],
    ['quay.io/a@sha256:ABC', 'behind @'],
    ['quay.io/a\n', "'a\n'"],
    [`quay.io/${'a'.repeat(250)}`, '255 bytes'],
  ])('refuses %j', (text, named) => {
    expect(() => parseReference(text)).toThrow(
      expect.objectContaining({ code: 'domain/reference', message: expect.stringContaining(named) }),
    );
  });

  it.each(['x'.repeat(50_000), `quay.io/a:${'x'.repeat(50_000)}`, `quay.io/${'X'.repeat(50_000)}`])(
    'shows the beginning of a long text only',
    (text) => {
      const long = expect.objectContaining({ message: expect.stringMatching(/^.{100,2000}$/) });
      expect(() => parseReference(text)).toThrow(long);
    },
  );

  it('throws only AppError', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('a', '.', '/', ':', '@', '_', '-', '[', ']', '1', digest) }),
        (text) => {
          try {
            const once = formatReference(parseReference(text));
            expect(formatReference(parseReference(once))).toBe(once);
            expect(isCanonicalReference(once)).toBe(true);
            expect(repositoryOf(once)).toBe(parseReference(once).repository);
          } catch (error) {
            expect(error).toBeInstanceOf(AppError);
          }
        },
      ),
    );
  });
});

describe('isCanonicalReference', () => {
  it('refuses what a runtime would store under another name', () => {
    expect(isCanonicalReference('docker.io/nginx:1')).toBe(false);
    expect(isCanonicalReference('docker.io/library/nginx:1')).toBe(true);
  });
});

describe('parts of a reference', () => {
  it('are split at the right colon', () => {
    expect(repositoryOf('localhost:5000/a/b')).toBe('localhost:5000/a/b');
    expect(repositoryOf(`localhost:5000/a/b:1@${digest}`)).toBe('localhost:5000/a/b');
    expect(lastPathPart('localhost:5000/a/b')).toBe('b');
  });
});
