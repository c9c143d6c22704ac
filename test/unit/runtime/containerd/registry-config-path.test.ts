import { describe, expect, it } from 'vitest';
import { registryConfigPath } from '../../../../src/runtime/containerd/registry-config-path.ts';

describe('registryConfigPath', () => {
  it.each([
    [{ registry: { configPath: '/etc/containerd/certs.d' } }, { kind: 'set', directory: '/etc/containerd/certs.d' }],
    [{ registry: { configPath: '/a:/b' } }, { kind: 'set', directory: '/a' }],
    [{ registry: { configPath: '' } }, { kind: 'unset' }],
    [{ enableSelinux: false }, { kind: 'unknown' }],
  ])('reads %j', (config, expected) => {
    expect(registryConfigPath({ config: JSON.stringify(config) })).toEqual(expected);
  });

  it('takes anything else for unknown', () => {
    expect(registryConfigPath({})).toEqual({ kind: 'unknown' });
    expect(registryConfigPath({ config: 'null' })).toEqual({ kind: 'unknown' });
  });
});
