import { describe, expect, it } from 'vitest';
import { mirrorPathOf } from '../../../../src/domain/model/reference.ts';

describe('mirrorPathOf', () => {
  it.each([
    ['quay.io/coreos/etcd', 'quay.io/coreos/etcd'],
    ['localhost:5000/app', 'localhost__5000/app'],
    ['[fd00::1]:5000/app', 'fd00_z_1__5000/app'],
    ['[FD00:0:0:0:0:0:0:1]/app', 'fd00_0_0_0_0_0_0_1/app'],
    ['[::1]:5000/app', 'z_z_1__5000/app'],
    ['[fe80::]/app', 'fe80_z_z/app'],
  ])('gives %s a path that a registry may have', (repository, path) => {
    expect(mirrorPathOf(repository)).toBe(path);
    expect(path).toMatch(/^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+)*$/);
  });
});
