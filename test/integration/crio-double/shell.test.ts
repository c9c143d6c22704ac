import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sampleImage } from '../../support/bundles/sample-image.ts';
import { connectCri, getOverSocket, type TestCriClient } from '../../support/crio-double/cri/cri-client.ts';
import { mirrorToml } from '../../support/crio-double/source-and-double.ts';
import {
  type CrioDouble,
  type StartOptions,
  startCrioDouble,
  wipeCrioDouble,
} from '../../support/crio-double/start-crio-double.ts';
import { temporaryFolder } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';
import { skopeoArgv, trixieRoot } from '../../support/rootfs/trixie-root.ts';
import { startSourceRegistry } from '../../support/source-registry.ts';

describe.runIf(have('root', 'mmdebstrap'))('shell of the CRI-O double', () => {
  const disposals: (() => unknown)[] = [];

  beforeAll(async () => {
    await trixieRoot();
  });
  afterEach(async () => {
    for (const dispose of disposals.splice(0).reverse()) await dispose();
  });

  const start = async (options: StartOptions = {}): Promise<{ double: CrioDouble; client: TestCriClient }> => {
    const double = await startCrioDouble({ skopeo: skopeoArgv(), ...options });
    const client = connectCri(double.socketPath);
    disposals.push(
      () => double.stop(),
      () => client.close(),
    );
    return { double, client };
  };

  it('answers Version and Status as CRI-O does', async () => {
    const { client } = await start();
    expect(await client.call('RuntimeService', 'Version', {})).toEqual({
      version: '0.1.0',
      runtime_name: 'cri-o',
      runtime_version: '1.36.3',
      runtime_api_version: 'v1',
    });
    expect(await client.call('RuntimeService', 'Status', { verbose: true })).toMatchObject({
      status: {
        conditions: [
          { type: 'RuntimeReady', status: true },
          { type: 'NetworkReady', status: true },
        ],
      },
      info: { config: expect.stringContaining('sandboxImage') },
    });
  });

  it('docs/runtime-facts.md, fact 6: serves gRPC and HTTP on the same socket at the same time', async () => {
    const { double, client } = await start();
    const answers = await Promise.all([
      client.listImages(),
      getOverSocket(double.socketPath, '/config'),
      client.listImages(),
      getOverSocket(double.socketPath, '/info'),
    ]);
    expect(answers[0]).toEqual([]);
    expect(JSON.parse((answers[3] as { body: string }).body)).toMatchObject({ storage_driver: 'vfs' });
  });

  it('lists, filters and removes containers that the fixture file names, and guards the images they use', async () => {
    const { double, client } = await start();
    const source = await startSourceRegistry();
    disposals.push(() => source.close());
    source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
    writeFileSync(join(double.dirs.registriesDropIns, '50.conf'), mirrorToml('quay.example.com', source.host));
    await double.reloadAndWait();
    const imageId = await client.pullImage('quay.example.com/app/web:v1');
    const fixture = {
      sandboxes: [{ id: 'p1', metadata: { name: 'web', namespace: 'default' }, state: 'SANDBOX_READY' }],
      containers: [
        { id: 'c1', pod_sandbox_id: 'p1', image_id: imageId, state: 'CONTAINER_RUNNING', labels: { app: 'web' } },
        { id: 'c2', pod_sandbox_id: 'p2', state: 'CONTAINER_EXITED', exit_code: 3, finished_at: '1700000000000000000' },
      ],
    };
    writeFileSync(double.dirs.containersFile, JSON.stringify(fixture));
    const list = async (filter?: object) => {
      const answer = await client.call('RuntimeService', 'ListContainers', { filter });
      return (answer as { containers: { id: string }[] }).containers.map(({ id }) => id);
    };
    expect(await list()).toEqual(['c1', 'c2']);
    expect(await list({ state: { state: 'CONTAINER_RUNNING' } })).toEqual(['c1']);
    expect(await list({ pod_sandbox_id: 'p2' })).toEqual(['c2']);
    expect(await list({ label_selector: { app: 'web' } })).toEqual(['c1']);
    expect(await client.call('RuntimeService', 'ListPodSandbox', {})).toMatchObject({ items: [{ id: 'p1' }] });
    expect(await client.call('RuntimeService', 'ContainerStatus', { container_id: 'c2' })).toMatchObject({
      status: { exit_code: 3, finished_at: '1700000000000000000', state: 'CONTAINER_EXITED' },
    });
    await expect(client.call('RuntimeService', 'ContainerStatus', { container_id: 'nope' })).rejects.toMatchObject({
      code: 5,
    });
    await expect(client.removeImage(imageId)).rejects.toThrow(/image is in use by a container/);
    await client.call('RuntimeService', 'RemoveContainer', { container_id: 'c1' });
    await client.call('RuntimeService', 'RemoveContainer', { container_id: 'c1' });
    expect(await list()).toEqual(['c2']);
    await client.removeImage(imageId);
    expect(await client.listImages()).toEqual([]);
  });

  it('images outlive a kill and a restart, and the pins are back with the start', async () => {
    const base = temporaryFolder();
    disposals.push(() => rmSync(base, { recursive: true, force: true }));
    const source = await startSourceRegistry();
    disposals.push(() => source.close());
    source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
    const files = {
      'etc/containers/registries.conf.d/50.conf': mirrorToml('quay.example.com', source.host),
      'etc/crio/crio.conf.d/99-pins.conf': '[crio.image]\npinned_images = ["quay.example.com/app/web:v1"]\n',
    };
    const first = await start({ base, files });
    await first.client.pullImage('quay.example.com/app/web:v1');
    await first.double.kill();
    const second = await start({ base });
    expect(await second.client.listImages()).toMatchObject([{ pinned: true }]);
  });

  it('docs/runtime-facts.md, fact 11: after an unclean shutdown and a reboot the wipe removes every image, pinned or not', async () => {
    const base = temporaryFolder();
    disposals.push(() => rmSync(base, { recursive: true, force: true }));
    const source = await startSourceRegistry();
    disposals.push(() => source.close());
    source.add('app/web', sampleImage({ seed: 'one' }), ['v1']);
    const flags = [`--clean-shutdown-file=${join(base, 'var/lib/crio/clean.shutdown')}`];
    const files = {
      'etc/containers/registries.conf.d/50.conf': mirrorToml('quay.example.com', source.host),
      'etc/crio/crio.conf.d/99-pins.conf': '[crio.image]\npinned_images = ["*web*"]\n',
    };
    const boot = () => rmSync(join(base, 'run'), { recursive: true, force: true });
    const first = await start({ base, files, flags });
    await first.client.pullImage('quay.example.com/app/web:v1');
    await first.double.stop();
    boot();
    expect(await wipeCrioDouble(base, { flags })).not.toContain('Wiping');
    const second = await start({ base, flags });
    expect(await second.client.listImages()).toMatchObject([{ pinned: true }]);
    await second.double.kill();
    expect(await wipeCrioDouble(base, { flags })).not.toContain('Wiping');
    boot();
    expect(await wipeCrioDouble(base, { flags })).toContain('Wiping storage directory');
    const third = await start({ base, flags });
    expect(await third.client.listImages()).toEqual([]);
    await third.client.pullImage('quay.example.com/app/web:v1');
    expect(await third.client.listImages()).toHaveLength(1);
  });

  it('takes its socket away when it ends', async () => {
    const { double } = await start();
    expect(existsSync(double.socketPath)).toBe(true);
    await double.stop();
    expect(existsSync(double.socketPath)).toBe(false);
  });
});
