import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readKubelet } from '../../../src/host/kubelet.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';

const { signal } = new AbortController();
const folder = folderForEach();

const at = (name: string) => join(folder, name);
const read = () =>
  readKubelet(signal, {
    configs: [at('none'), at('config.yaml')],
    dropIns: [at('none'), at('kubelet.conf.d')],
    root: folder,
    processes: at('proc'),
  });
const write = (name: string, text: string) => {
  mkdirSync(join(at(name), '..'), { recursive: true });
  writeFileSync(at(name), text);
};
const config = (...lines: readonly string[]) => ['kind: KubeletConfiguration', ...lines, ''].join('\n');
const record = (name: string, content: unknown) => {
  mkdirSync(join(at('image_manager'), name, '..'), { recursive: true });
  writeFileSync(join(at('image_manager'), name), typeof content === 'string' ? content : JSON.stringify(content));
};

describe('the files of a kubelet', () => {
  it('give the defaults where there are none', async () => {
    expect(await read()).toEqual({
      configFile: undefined,
      isRunning: false,
      verificationPolicy: undefined,
      allowlist: [],
      collectsAtPercent: 85,
      collectsAfter: '2m',
      evictsBelow: '15%',
      records: at('image_manager'),
      pullIntents: [],
      secretRepositories: [],
    });
  });

  it('tell the policy, the marks and the records, and nothing of what is malformed', async () => {
    writeFileSync(
      at('config.yaml'),
      'kind: KubeletConfiguration\nimageGCHighThresholdPercent: 80\nimagePullCredentialsVerificationPolicy: AlwaysVerify\npreloadedImagesVerificationAllowlist: [quay.io/a/*]\n',
    );
    record('pulling/sha256-1', { kind: 'ImagePullIntent', image: 'quay.io/a/b:1' });
    record('pulling/sha256-2', '{"image":');
    record('pulled/sha256-1', {
      imageRef: 'sha256:1',
      credentialMapping: { 'quay.io/a/b': { nodePodsAccessible: true } },
    });
    record('pulled/sha256-2', {
      imageRef: 'sha256:2',
      credentialMapping: { 'quay.io/a/c': { kubernetesSecrets: [{ name: 'x' }] } },
    });
    record('pulled/sha256-3', { credentialMapping: [] });
    expect(await read()).toEqual({
      configFile: at('config.yaml'),
      isRunning: false,
      verificationPolicy: 'AlwaysVerify',
      allowlist: ['quay.io/a/*'],
      collectsAtPercent: 80,
      collectsAfter: '2m',
      evictsBelow: '15%',
      records: at('image_manager'),
      pullIntents: ['quay.io/a/b:1'],
      secretRepositories: ['quay.io/a/c'],
    });
    writeFileSync(at('config.yaml'), 'kind: Config\n');
    expect(await read()).toMatchObject({ configFile: undefined, verificationPolicy: undefined });
  });

  it('are overridden by drop-ins, in the order of their names', async () => {
    write('config.yaml', config('imageGCHighThresholdPercent: 80', 'evictionHard: {memory.available: 100Mi}'));
    write('kubelet.conf.d/20-b.conf', config('imageGCHighThresholdPercent: 70'));
    write(
      'kubelet.conf.d/10-a.conf',
      config('imageGCHighThresholdPercent: 60', 'evictionHard: {imagefs.available: 5%}'),
    );
    write('kubelet.conf.d/30-c.yaml', config('imageGCHighThresholdPercent: 50'));
    write('kubelet.conf.d/40-d.conf', 'kind: Other\n');
    expect(await read()).toMatchObject({
      configFile: at('kubelet.conf.d/20-b.conf'),
      collectsAtPercent: 70,
      evictsBelow: '5%',
    });
  });

  it('have no mark of eviction for images where others are set', async () => {
    write('kubelet.conf.d/00-k3s-defaults.conf', config('evictionHard: {memory.available: 100Mi}'));
    expect(await read()).not.toHaveProperty('evictsBelow');
  });

  it('are those that the running kubelet names, and its options come first', async () => {
    write('config.yaml', config('imageGCHighThresholdPercent: 80'));
    write('own/config.yaml', config('imageGCHighThresholdPercent: 75', 'evictionHard: {imagefs.available: 9%}'));
    write('own/conf.d/1.conf', config('imagePullCredentialsVerificationPolicy: AlwaysVerify'));
    write('own/root/image_manager/pulling/1', JSON.stringify({ image: 'quay.io/a/b:1' }));
    write('proc/1/cmdline', '/sbin/init\0');
    write('proc/self/cmdline', 'kubelet\0');
    const args = [
      '--config',
      at('own/config.yaml'),
      `--config-dir=${at('own/conf.d')}`,
      `--root-dir=${at('own/root')}`,
    ];
    write('proc/22/cmdline', ['/usr/bin/kubelet', ...args, ''].join('\0'));
    const found = {
      configFile: at('own/conf.d/1.conf'),
      isRunning: true,
      verificationPolicy: 'AlwaysVerify',
      collectsAtPercent: 75,
      evictsBelow: '9%',
      pullIntents: ['quay.io/a/b:1'],
    };
    expect(await read()).toMatchObject(found);
    const more = ['--image-gc-high-threshold=65', '--eviction-hard', 'imagefs.available<5%,nodefs.available<4%'];
    write('proc/22/cmdline', ['/usr/bin/kubelet', ...args, ...more, ''].join('\0'));
    expect(await read()).toMatchObject({ ...found, collectsAtPercent: 65, evictsBelow: '5%' });
  });

  it('tell at which age it collects images', async () => {
    write('config.yaml', config('imageMinimumGCAge: 24h', 'imageMaximumGCAge: 0s'));
    expect(await read()).toMatchObject({ collectsAfter: '24h' });
    expect(await read()).not.toHaveProperty('collectsOlderThan');
    write('config.yaml', config('imageMaximumGCAge: 720h'));
    expect(await read()).toMatchObject({ collectsAfter: '2m', collectsOlderThan: '720h' });
    write('proc/22/cmdline', ['kubelet', '--minimum-image-ttl-duration', '5m', ''].join('\0'));
    expect(await read()).toMatchObject({ collectsAfter: '5m', collectsOlderThan: '720h' });
  });

  it('tell what a cri-dockerd that runs pins by its options', async () => {
    write('proc/7/cmdline', 'cri-dockerd-helper\0--pinned-images=x\0');
    expect(await read()).not.toHaveProperty('criDockerd');
    write('proc/30/cmdline', '/usr/bin/cri-dockerd\0--container-runtime-endpoint\0fd://\0');
    expect(await read()).toMatchObject({ criDockerd: { images: [], labels: [] } });
    const options = [
      '--pinned-images=quay.io/a/*, etcd',
      '--pinned-images',
      'quay.io/b',
      '--pinned-image-labels=io.x=1',
    ];
    write('proc/30/cmdline', ['/usr/bin/cri-dockerd', ...options, ''].join('\0'));
    expect(await read()).toMatchObject({
      isRunning: false,
      criDockerd: { images: ['quay.io/a/*', 'etcd', 'quay.io/b'], labels: ['io.x=1'] },
    });
  });

  it('tell a cri-dockerd within another process, as in k3s, by the endpoint of the kubelet', async () => {
    write('config.yaml', config('containerRuntimeEndpoint: unix:///run/k3s/cri-dockerd/cri-dockerd.sock'));
    expect(await read()).toMatchObject({ criDockerd: { images: [], labels: [] } });
    write('proc/22/cmdline', 'kubelet\0--container-runtime-endpoint=unix:///run/containerd/containerd.sock\0');
    expect(await read()).not.toHaveProperty('criDockerd');
  });
});
