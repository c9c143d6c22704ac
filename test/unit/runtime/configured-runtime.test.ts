import { describe, expect, it } from 'vitest';
import { defaultSettings } from '../../../src/domain/settings/settings.ts';
import { configuredRuntime } from '../../../src/runtime/detected-runtime.ts';
import type { RuntimeCandidate } from '../../../src/runtime/runtimes.ts';

const K3S: RuntimeCandidate = {
  kind: 'containerd',
  title: 'k3s',
  socketPath: '/run/k3s/containerd/containerd.sock',
  unitNames: ['k3s.service'],
  certsDirectory: '/var/lib/rancher/k3s/agent/etc/containerd/certs.d',
  trace: '/var/lib/rancher/k3s',
};
const configured = (runtime: Partial<typeof defaultSettings.runtime>, found?: RuntimeCandidate) =>
  configuredRuntime({ ...defaultSettings.runtime, ...runtime }, found);

describe('the runtime of the settings', () => {
  it('is the one that was found', () => {
    expect(configured({}, K3S)).toEqual(K3S);
    expect(configured({})).toBeUndefined();
  });

  it('keeps the kind that was found when a socket is set', () => {
    expect(configured({ socket: '/srv/c.sock' }, K3S)).toEqual({ ...K3S, socketPath: '/srv/c.sock' });
  });

  it('has the folder of mirrors that is set', () => {
    expect(configured({ certs_dir: '/srv/certs.d' }, K3S)).toEqual({ ...K3S, certsDirectory: '/srv/certs.d' });
  });

  it('is of the kind that is set, whatever was found', () => {
    expect(configured({ kind: 'cri-o' }, K3S)).toMatchObject({ kind: 'cri-o', socketPath: '/var/run/crio/crio.sock' });
    const plain = configured({ kind: 'containerd' }, K3S);
    expect(plain).toMatchObject({ title: 'containerd', socketPath: '/run/containerd/containerd.sock' });
    expect(plain).not.toHaveProperty('certsDirectory');
    expect(configured({ kind: 'containerd', socket: '/srv/c.sock' })).toMatchObject({ socketPath: '/srv/c.sock' });
  });
});
