import { describe, expect, it } from 'vitest';
import { detectRuntime } from '../../../src/runtime/detected-runtime.ts';

const CRIO = '/var/run/crio/crio.sock';
const K3S = '/run/k3s/containerd/containerd.sock';
const PLAIN = '/run/containerd/containerd.sock';
const DOCKER = '/run/docker.sock';
const PODMAN = '/run/podman/podman.sock';

async function detect(
  paths: readonly string[],
  answering: readonly string[] = [],
  imagesPath?: string,
): Promise<string | undefined> {
  const probes = {
    exists: async (path: string) => paths.includes(path),
    answers: async ({ socketPath }: { socketPath: string }) => answering.includes(socketPath),
    imagesPath: async () => imagesPath,
  };
  return (await detectRuntime(AbortSignal.timeout(10_000), probes))?.title;
}

describe('detectRuntime', () => {
  it('finds the runtime that answers', async () => {
    expect(await detect([CRIO, PLAIN, '/etc/crio', '/etc/containerd'], [CRIO])).toBe('CRI-O');
    expect(await detect([CRIO, PLAIN, '/etc/crio', '/etc/containerd'], [PLAIN])).toBe('containerd');
  });

  it('prefers a distribution’s own containerd to the plain one of Docker', async () => {
    expect(await detect([K3S, PLAIN, '/var/lib/rancher/k3s', '/etc/containerd'], [K3S, PLAIN])).toBe('k3s');
  });

  it('distinguishes k3s and RKE2, which share a socket', async () => {
    expect(await detect([K3S, '/var/lib/rancher/rke2'], [K3S])).toBe('RKE2');
    expect(await detect([K3S, '/var/lib/rancher/k3s'], [K3S])).toBe('k3s');
  });

  it('uses the folder of the images where both were installed once', async () => {
    const both = [K3S, '/var/lib/rancher/k3s', '/var/lib/rancher/rke2'];
    const snapshots = 'agent/containerd/io.containerd.snapshotter.v1.overlayfs';
    expect(await detect(both, [K3S], `/var/lib/rancher/rke2/${snapshots}`)).toBe('RKE2');
    expect(await detect(both, [K3S], `/var/lib/rancher/k3s/${snapshots}`)).toBe('k3s');
    expect(await detect(both, [K3S], '/data/elsewhere')).toBe('k3s');
    expect(await detect(both, [K3S])).toBe('k3s');
  });

  it('uses the socket, then the installation, while nothing answers yet', async () => {
    expect(await detect(['/etc/crio', PLAIN, '/etc/containerd'])).toBe('containerd');
    expect(await detect(['/etc/crio', '/etc/containerd'])).toBe('CRI-O');
    expect(await detect(['/etc/containerd'])).toBe('containerd');
  });

  it('takes Docker where cri-dockerd runs or there is no kubelet, also before Docker has started', async () => {
    const both = [DOCKER, '/var/lib/docker', PLAIN, '/etc/containerd'];
    for (const answering of [[DOCKER, PLAIN], [PLAIN]]) {
      expect(await detect(both, answering)).toBe('Docker');
      expect(await detect([...both, '/var/lib/kubelet', '/run/cri-dockerd.sock'], answering)).toBe('Docker');
      expect(await detect([...both, '/var/lib/kubelet'], answering)).toBe('containerd');
    }
    expect(await detect([...both, K3S, '/var/lib/rancher/k3s'], [DOCKER, PLAIN, K3S])).toBe('k3s');
    expect(await detect([...both, '/var/lib/kubelet', '/var/lib/rancher/k3s'], [DOCKER])).toBe('containerd');
  });

  it('takes Podman last, and never beside a kubelet', async () => {
    expect(await detect([PODMAN, PLAIN, '/etc/containerd'], [PODMAN, PLAIN])).toBe('containerd');
    expect(await detect([PODMAN], [PODMAN])).toBe('Podman');
    expect(await detect([PODMAN, '/var/lib/kubelet'], [PODMAN])).toBeUndefined();
  });

  it('finds nothing on a node without a runtime', async () => {
    expect(await detect([])).toBeUndefined();
  });
});
