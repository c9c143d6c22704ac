import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { backoffMs, kubernetesError } from '../../../../src/fleet/kubernetes/api.ts';
import { readCredentials } from '../../../../src/fleet/kubernetes/credentials.ts';
import { NEVER_ABORTED } from '../../../../src/platform/async/abort.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

const root = folderForEach();

/** A kubeconfig with these members of its cluster and of its user. */
function lay(path: string, cluster: object, user: object): string {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  const config = {
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'k', user: 'u' } }],
    clusters: [{ name: 'k', cluster: { server: 'https://10.0.0.1:6443/', ...cluster } }],
    users: [{ name: 'u', user }],
  };
  writeFileSync(file, JSON.stringify(config));
  return file;
}

const read = (setting = 'auto') => readCredentials(setting, NEVER_ABORTED, root);

describe('readCredentials', () => {
  it.each([
    'etc/kubernetes/kubelet.conf',
    'var/lib/kubelet/kubeconfig',
    'var/lib/rancher/k3s/agent/kubelet.kubeconfig',
    'var/lib/rancher/rke2/agent/kubelet.kubeconfig',
    'var/snap/microk8s/current/credentials/kubelet.config',
    'var/lib/k0s/kubelet.conf',
  ])('finds %s', async (path) => {
    const file = lay(path, {}, { token: 'abc' });
    expect(await read()).toEqual({ path: file, server: 'https://10.0.0.1:6443', isUnverified: false, token: 'abc' });
  });

  it("takes OpenShift's kubeconfig, where kubeadm's path has the kubelet's settings", async () => {
    lay('etc/kubernetes/kubelet.conf', {}, {});
    const file = lay('var/lib/kubelet/kubeconfig', { 'tls-server-name': 'api' }, { token: 'abc' });
    expect(await read()).toMatchObject({ path: file, serverName: 'api' });
  });

  it('reads inline data, and files beside it', async () => {
    const data = Buffer.from('AUTHORITY').toString('base64');
    const file = lay('own.conf', { 'certificate-authority-data': data }, { tokenFile: 'token' });
    writeFileSync(join(root, 'token'), 'abc\n');
    expect(await read(file)).toMatchObject({ ca: 'AUTHORITY', token: 'abc' });
  });

  it('takes the file of a token before the token, as long as the file can be read', async () => {
    const file = lay('own.conf', {}, { token: 'old', tokenFile: 'token' });
    expect((await read(file)).token).toBe('old');
    writeFileSync(join(root, 'token'), 'renewed\n');
    expect((await read(file)).token).toBe('renewed');
  });

  it('takes a server that is named by its host', async () => {
    const file = lay('own.conf', { server: 'https://api-int.example.com:6443' }, { token: 'a' });
    expect(await read(file)).toMatchObject({ server: 'https://api-int.example.com:6443' });
  });

  it.each<[string, object, object, RegExp]>([
    ['a program', {}, { exec: { command: 'aws' } }, /nor a token; it has exec, and stickpin runs no program for/],
    ['a provider', {}, { 'auth-provider': { name: 'gcp' } }, /nor a token; it has auth-provider, and stickpin runs/],
    ['no user', {}, {}, /neither a client certificate with a key nor a token$/],
    ['a certificate without its key', {}, { 'client-certificate-data': 'AA==' }, /neither a client certificate/],
    ['a proxy', { 'proxy-url': 'http://proxy' }, { token: 'a' }, /proxy-url/],
    ['no TLS', { server: 'http://10.0.0.1' }, { token: 'a' }, /clusters\.0\.cluster\.server: must begin with https/],
    [
      'a missing file',
      { 'certificate-authority': 'ca.crt' },
      { token: 'a' },
      /ca\.crt can't be read: no such file or directory \(ENOENT/,
    ],
    ['no certificate', {}, { 'client-certificate-data': 'AA==', 'client-key-data': 'AA==' }, /can't be read/],
  ])('says in one line what is wrong: %s', async (_, cluster, user, why) => {
    const file = lay('own.conf', cluster, user);
    await expect(read(file)).rejects.toMatchObject({
      code: 'kubernetes/kubeconfig',
      message: expect.stringMatching(why),
    });
  });

  it.each([
    ['{', /own\.conf can't be used as a kubeconfig: \S[^\n]+$/],
    ['kind: KubeletConfiguration', /can't be used as a kubeconfig: kind: /],
    ['kind: Config', /can't be used as a kubeconfig: current-context: /],
  ])('says what is wrong with %j', async (text, why) => {
    writeFileSync(join(root, 'own.conf'), text);
    await expect(read(join(root, 'own.conf'))).rejects.toThrow(why);
  });

  it('says where it looked', async () => {
    await expect(read()).rejects.toThrow(/looked at .*k0s.*Name it in fleet\.kubeconfig$/);
    await expect(read('/no/such')).rejects.toThrow(/\/no\/such does not exist/);
  });
});

describe('backoffMs', () => {
  it('doubles up to a minute, less up to a half by chance', () => {
    const waits = [1, 2, 3, 7, 100].map((failures) => backoffMs(failures, undefined, 0));
    expect(waits).toEqual([1_000, 2_000, 4_000, 60_000, 60_000]);
    expect(backoffMs(3, undefined, 1)).toBe(2_000);
  });

  it('is never shorter than the API asked for', () => {
    const busy = kubernetesError('kubernetes/busy', 'busy', { retryAfterMs: 90_000 });
    expect(backoffMs(1, busy, 0)).toBe(90_000);
    expect(backoffMs(1, busy, 1)).toBeGreaterThan(90_000);
  });
});
