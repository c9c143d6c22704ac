import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readKubelet } from '../../../src/host/kubelet.ts';

const { signal } = new AbortController();
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'stickpin-kubelet-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const at = (name: string) => join(folder, name);
const read = () => readKubelet(signal, { configs: [at('none'), at('config.yaml')], imageManager: at('image_manager') });
const record = (name: string, content: unknown) => {
  mkdirSync(join(at('image_manager'), name, '..'), { recursive: true });
  writeFileSync(join(at('image_manager'), name), typeof content === 'string' ? content : JSON.stringify(content));
};

describe('the files of a kubelet', () => {
  it('give the defaults where there are none', async () => {
    expect(await read()).toEqual({
      configFile: undefined,
      verificationPolicy: undefined,
      allowlist: [],
      collectsAtPercent: 85,
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
      verificationPolicy: 'AlwaysVerify',
      allowlist: ['quay.io/a/*'],
      collectsAtPercent: 80,
      pullIntents: ['quay.io/a/b:1'],
      secretRepositories: ['quay.io/a/c'],
    });
    writeFileSync(at('config.yaml'), 'kind: Config\n');
    expect(await read()).toMatchObject({ configFile: undefined, verificationPolicy: undefined });
  });
});
