import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { UnitControl } from '../../../src/ports/node.ts';
import { createContainerdRuntime } from '../../../src/runtime/containerd/containerd-runtime.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import { type SampleImage, sampleImage } from '../../support/bundles/sample-image.ts';
import { type Containerd, type ContainerdOptions, startContainerd } from '../../support/daemon/runtimes/containerd.ts';
import { eventually } from '../../support/eventually.ts';
import { coded } from '../../support/matching.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const REPOSITORY = 'quay.example.com/coreos/etcd';
const LIST = ':/etc/docker/certs.d';
const signal = AbortSignal.timeout(600_000);

const units: UnitControl = {
  reloadUnit: () => Promise.reject(new Error('containerd needs none')),
  onUnitChange: () => () => undefined,
};

describe.runIf(have('root', 'mmdebstrap'))('the containerd adapter with containerd 2', () => {
  let containerd: Containerd;
  let registry: SourceRegistry;
  let runtime: RuntimeAdapter;

  const start = async (options: ContainerdOptions = {}) => {
    containerd = await startContainerd({ release: '2', snapshotter: 'native', ...options });
    runtime = createContainerdRuntime({
      socketPath: containerd.socketPath,
      configFile: containerd.configFile,
      units,
      mirror: { authority: registry.host, token: TOKEN },
      foldersFile: join(containerd.certsDirectory, '../mirror-folders'),
    });
  };
  const publish = (image: SampleImage) => {
    registry.add(`${TOKEN}/${REPOSITORY}`, image, []);
    return `${REPOSITORY}@${image.top.digest}`;
  };
  const mirrored = () => runtime.applyMirrors([{ repository: REPOSITORY }], signal);

  beforeEach(async () => {
    registry = await startSourceRegistry();
  });
  afterEach(async () => {
    runtime.close();
    await containerd.stop();
    await registry.close();
  });

  it('finds config_path in an imported file, pulls, pins, and keeps a pin over another pull', async () => {
    await start();
    const reference = publish(sampleImage({ seed: 'two' }));
    await mirrored();
    expect(readdirSync(containerd.certsDirectory)).toEqual(['quay.example.com']);
    await runtime.applyPins([reference], { force: false }, signal);
    await runtime.pull(reference, signal);
    const pinned = () => eventually(async () => expect((await runtime.image(reference, signal))?.pinned).toBe(true));
    await pinned();
    registry.forget();
    // containerd 2.1 takes the label away again, as 1.7 does (docs/runtime-facts.md, fact 22).
    await runtime.pull(reference, signal);
    await pinned();
    expect(registry.requests.length).toBeGreaterThan(0);
    expect(await runtime.addTag(`${REPOSITORY}:1`, reference, signal)).toBe(true);
    expect(await runtime.image(`${REPOSITORY}:1`, signal)).toMatchObject({ repoDigests: [reference] });
    expect(await runtime.observe(signal)).toMatchObject({ kind: 'reachable', name: expect.stringMatching(/ v?2\./) });
    await runtime.applyMirrors([], signal);
    expect(readdirSync(containerd.certsDirectory)).toEqual([]);
  });

  it('mirrors with a list as config_path, which is taken for one folder (docs/runtime-facts.md, fact 36)', async () => {
    await start({ furtherCerts: LIST });
    const mine = `[host."http://${registry.host}/v2/mine"]\noverride_path = true\n`;
    mkdirSync(join(containerd.certsDirectory, 'quay.example.com'));
    writeFileSync(join(containerd.certsDirectory, 'quay.example.com/hosts.toml'), mine);
    const reference = publish(sampleImage({ seed: 'list' }));
    await mirrored();
    await runtime.pull(reference, signal);
    expect(registry.requests.every(({ path }) => path.startsWith(`/v2/${TOKEN}/`))).toBe(true);
    // Behind our mirror is what the user has in the folder of the list.
    const other = sampleImage({ seed: 'mine' });
    registry.add('mine/coreos/etcd', other);
    await runtime.pull(`${REPOSITORY}@${other.top.digest}`, signal);
    expect(existsSync(`${containerd.certsDirectory}:`)).toBe(true);
    await runtime.applyMirrors([], signal);
    expect(existsSync(`${containerd.certsDirectory}:`)).toBe(false);
    expect(readFileSync(join(containerd.certsDirectory, 'quay.example.com/hosts.toml'), 'utf8')).toBe(mine);
  });

  it('mirrors with a list that is read as one, without a folder of its name', async () => {
    await start({ furtherCerts: LIST, pullsLocally: true });
    const reference = publish(sampleImage({ seed: 'local' }));
    await mirrored();
    await runtime.pull(reference, signal);
    expect(registry.requests.length).toBeGreaterThan(0);
    expect(existsSync(`${containerd.certsDirectory}:`)).toBe(false);
  });

  it('says that no mirror can work without config_path', async () => {
    await start({ withConfigPath: false });
    await expect(mirrored()).rejects.toMatchObject(coded('runtime/config', 'io.containerd.cri.v1.images'));
  });
});
