import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { createContainerdRuntime } from '../../../src/runtime/containerd/containerd-runtime.ts';
import { createDockerRuntime } from '../../../src/runtime/docker/docker-runtime.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import { type OddImage, oddImage, oddImages } from '../../support/bundles/odd-images.ts';
import type { SampleImage } from '../../support/bundles/sample-image.ts';
import { type Containerd, startContainerd } from '../../support/daemon/runtimes/containerd.ts';
import { type DockerEngine, startDockerEngine } from '../../support/daemon/runtimes/docker-engine.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';
import { execute } from '../../support/rootfs/execute.ts';
import { skopeoArgv, trixieRoot } from '../../support/rootfs/trixie-root.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const REPOSITORY = 'quay.example.com/coreos/etcd';
const signal = AbortSignal.timeout(600_000);
const units = { reloadUnit: () => Promise.reject(new Error('none')), onUnitChange: () => () => undefined };
const canRun = have('root', 'mmdebstrap');

let registry: SourceRegistry;
beforeEach(async () => {
  registry = await startSourceRegistry();
});
afterEach(() => registry.close());

const publish = (image: SampleImage) => {
  registry.add(`${TOKEN}/${REPOSITORY}`, image);
  return `${REPOSITORY}@${image.top.digest}`;
};

describe.runIf(canRun).each([{ release: '1.7' as const }, { release: '2' as const }])(
  'containerd $release',
  ({ release }) => {
    let containerd: Containerd;
    let runtime: RuntimeAdapter;
    beforeAll(async () => {
      containerd = await startContainerd({ release, snapshotter: 'native' });
    });
    afterAll(() => containerd?.stop());
    beforeEach(async () => {
      const { socketPath, configFile, certsDirectory } = containerd;
      const mirror = { authority: registry.host, token: TOKEN };
      const foldersFile = join(certsDirectory, '../mirror-folders');
      runtime = createContainerdRuntime({ socketPath, configFile, certsDirectory, units, mirror, foldersFile });
      await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
    });
    afterEach(async () => {
      await runtime.applyMirrors([], signal);
      runtime.close();
    });

    const usable = async (reference: string) => {
      const seen = await runtime.observe(signal);
      if (seen.kind !== 'reachable') throw new Error(seen.reason);
      const image = seen.images.find(({ repoDigests }) => repoDigests.includes(reference));
      return image !== undefined && image.isUnpacked !== false;
    };

    it.each(oddImages)('can or can not use %s', async (name, image, unfitFor) => {
      const isUnfit = unfitFor.some(
        (who) => who === 'containerd' || (release === '1.7' && who === 'containerd before 2.0'),
      );
      const reference = publish(oddImage(`${release}-${name}`, image));
      const pull = runtime.pull(reference, signal);
      // A config of another type looks like a blob that is missing.
      const codes = /^runtime\/(?:unfit-image|not-found)$/;
      if (isUnfit) await expect(pull).rejects.toMatchObject({ code: expect.stringMatching(codes) });
      else await pull;
      expect(await usable(reference)).toBe(!isUnfit);
    });

    it('says of a listed image that it is not unpacked, and stops when it is gone', async () => {
      const odd = oddImage(`${release}-check`, { form: 'Docker', layers: ['octet-stream'] });
      const reference = publish(odd);
      await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/unfit-image' });
      const content = await runtime
        .openContentCheck()
        .check({ reference, documents: [], layers: [] }, () => undefined, signal);
      expect(content).toEqual({ kind: 'broken', faults: [{ kind: 'not-unpacked' }] });
      await runtime.removeImage((await runtime.image(reference, signal))?.imageId ?? '', signal);
      expect(await usable(reference)).toBe(false);
    });
  },
);

describe.runIf(canRun)('Docker 26', () => {
  let engine: DockerEngine;
  let runtime: RuntimeAdapter;
  beforeAll(async () => {
    engine = await startDockerEngine('Docker 26');
  });
  afterAll(() => engine?.stop());
  beforeEach(() => {
    const mirror = { authority: registry.host, token: TOKEN };
    const { socketPath } = engine;
    const log = createRecordingLog();
    runtime = createDockerRuntime({ title: 'Docker', socketPath, unitNames: [], units, mirror, log });
  });
  afterEach(() => runtime.close());

  it.each(oddImages)('can or can not use %s', async (name, image, unfitFor) => {
    const pull = runtime.pull(publish(oddImage(`docker-${name}`, image)), signal);
    if (unfitFor.includes('Docker')) await expect(pull).rejects.toMatchObject({ code: 'runtime/unfit-image' });
    else await pull;
  });
});

describe.runIf(canRun)('the library of CRI-O and Podman, in skopeo 1.18', () => {
  let work: string;
  beforeAll(async () => {
    await trixieRoot();
    work = mkdtempSync(join(tmpdir(), 'odd-images-'));
  });
  afterAll(() => rmSync(work, { recursive: true, force: true }));
  const toStorage = (image: SampleImage, name: string) => {
    registry.add(`x/${name}`, image, ['1']);
    const store = `containers-storage:[vfs@${join(work, 'root')}+${join(work, 'run')}]quay.example.com/x/${name}:1`;
    const copy = ['--insecure-policy', 'copy', '--quiet', '--src-tls-verify=false'];
    return execute([...skopeoArgv(), ...copy, `docker://${registry.host}/x/${name}:1`, store]);
  };

  it.each(oddImages)('can or can not use %s', async (name, image: OddImage, unfitFor) => {
    const isUnfit = unfitFor.some((who) => who.startsWith('CRI-O'));
    const copied = toStorage(oddImage(`skopeo-${name}`, image), 'it');
    if (isUnfit) await expect(copied).rejects.toThrow(/unsupported docker v2s2 media type|invalid mixed OCI image/);
    else await copied;
  });
});
