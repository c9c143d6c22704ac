import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { bootTime } from '../../../../src/host/node-facts.ts';
import { hostArch, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { connectCri } from '../../../support/crio-double/cri/cri-client.ts';
import { type FixtureContainers, fixtureContainers } from '../../../support/crio-double/cri/fixture-containers.ts';
import type { CrioDouble } from '../../../support/crio-double/start-crio-double.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';

/**
 * Releases on the CRI-O double, with containers that the test starts and ends over its fixture;
 * everything else is real.
 */
describe.runIf(have('root', 'mmdebstrap'))('the life of releases on the CRI-O double', () => {
  let double: CrioDouble;
  let harness: DaemonHarness;
  let containers: FixtureContainers;

  beforeEach(async () => {
    const node = await createCrioNode({ lifecycle: { soak: 1_000 } });
    ({ harness } = node);
    double = node.double();
    containers = fixtureContainers(double);
  });

  const make = (
    sequence: number,
    schedule: 'immediate' | 'manual' = 'immediate',
    tags: { readonly api?: string } = {},
  ): Promise<SampleBundle> =>
    harness.make({
      schedule,
      version: `4.13.${sequence}`,
      sequence,
      images: ['etcd', 'api'].map((component) => ({
        component,
        reference: `quay.example.com/ocp/${component}:${(component === 'api' && tags.api) || 'stable'}`,
        image: sampleImage({ seed: `${component}-${sequence}`, architecture: hostArch }),
      })),
    });
  const phases = (report: StatusReport) => report.bundles.map(({ version, phase }) => `${version} ${phase}`).join(', ');
  const reach = (wanted: string) => harness.until((report) => phases(report) === wanted);
  /** Rounds come each half a minute; a test asks for one. */
  const look = () => harness.engine.kick();
  const referenceOf = (bundle: SampleBundle, component: string) =>
    bundle.contents.images.find((image) => image.component === component)?.reference ?? '';
  const run = async (bundle: SampleBundle) => {
    for (const component of ['etcd', 'api']) await containers.start(component, referenceOf(bundle, component));
    look();
  };
  const images = async () => {
    const client = connectCri(double.socketPath);
    try {
      return await client.listImages();
    } finally {
      client.close();
    }
  };
  /** What a pod of etcd gets that is started by its tag. */
  const stable = async () =>
    (await images()).find((image) => image.repo_tags.includes('quay.example.com/ocp/etcd:stable'))?.repo_digests[0];
  /** Plugs the stick in and pulls it out once the release is activated. */
  const preload = async (bundle: SampleBundle) => {
    harness.plug(bundle.path);
    const isDone = ({ version, phase }: StatusReport['bundles'][number]) =>
      version === bundle.payload.version && phase === 'activated';
    await harness.until((report) => report.bundles.some(isDone));
    harness.unplug();
  };

  it('writes the last known good release and the status for units that start without the control plane', async () => {
    const A = await make(1);
    await harness.start();
    await preload(A);
    await run(A);
    await harness.until(
      ({ status }) => status === 'IDLE: ocp 4.13.1 proven (2 images pinned). Waiting for a stick.',
      120_000,
    );
    const env = `STICKPIN_ETCD=${referenceOf(A, 'etcd')}\nSTICKPIN_API=${referenceOf(A, 'api')}\n`;
    const written = (folder: string) => readFileSync(join(harness.base, folder, 'images.env'), 'utf8');
    const published = (folder: string) => JSON.parse(readFileSync(join(harness.base, folder, 'status.json'), 'utf8'));
    const stamp = { schemaVersion: 1, writtenAt: expect.any(String), bootId: bootTime().bootId, arch: hostArch };
    const now = () => ({ ...JSON.parse(JSON.stringify(harness.report())), ...stamp });
    await eventually(() => {
      for (const folder of ['state', 'run']) expect(written(folder)).toContain(env);
      expect(published('run')).toEqual(now());
      expect(published('state')).toMatchObject(stamp);
      expect(phases(published('state'))).toBe('4.13.1 proven');
    }, 20_000);
  }, 150_000);

  it('a ready release whose containers run without an activation is activated and then proven', async () => {
    const [A, B] = await Promise.all([make(1), make(2, 'manual')]);
    await harness.start();
    await preload(A);
    await run(A);
    await reach('4.13.1 proven');
    harness.plug(B.path);
    await reach('4.13.1 proven, 4.13.2 ready');
    expect(await stable()).toBe(referenceOf(A, 'etcd'));
    await containers.start('debug', referenceOf(B, 'api'));
    look();
    await containers.start('etcd', referenceOf(B, 'etcd'));
    look();
    await harness.until((report) => phases(report) === '4.13.1 superseded, 4.13.2 proven');
    expect(await stable()).toBe(referenceOf(B, 'etcd'));
    const told = harness.history(undefined, 'ocp@4.13.2');
    expect(told.find(({ kind }) => kind === 'bundleSeenRunning')?.message).toBe(
      'ocp 4.13.2 runs, though it was not activated here: etcd has containers of its images. It is activated, so that its tags name what runs',
    );
  }, 150_000);

  it('a release that was rolled back is marked, and the running release gets its tags; so does the fallback after stickpin rollback', async () => {
    const [A, B] = await Promise.all([make(1), make(2)]);
    await harness.start();
    await preload(A);
    await run(A);
    await reach('4.13.1 proven');
    await preload(B);
    await containers.start('etcd', referenceOf(B, 'etcd'));
    containers.restart('etcd');
    containers.end('etcd', 1);
    containers.restart('etcd');
    look();
    await reach('4.13.1 proven, 4.13.2 active');
    expect(await stable()).toBe(referenceOf(B, 'etcd'));
    await run(A);
    await harness.until((report) => report.bundles[1]?.reason?.code === 'engine/rolled-back');
    await expect.poll(stable, { timeout: 60_000 }).toBe(referenceOf(A, 'etcd'));
    await reach('4.13.1 proven, 4.13.2 activated');
    const history = (version: string) =>
      harness
        .history(undefined, `ocp@${version}`)
        .map(({ kind }) => kind)
        .filter((kind) => ['bundleActivated', 'bundleRolledBack', 'activation-requested'].includes(kind));
    const back = ['bundleActivated', 'activation-requested', 'bundleActivated'];
    await expect.poll(() => history('4.13.1'), { timeout: 60_000 }).toEqual(back);
    expect(history('4.13.2')).toEqual(['bundleActivated', 'bundleRolledBack']);
    await harness.restart();
    await reach('4.13.1 proven, 4.13.2 activated');
    expect(harness.report().bundles[1]?.reason?.code).toBe('engine/rolled-back');

    // It answers as soon as it has looked at the node once.
    await eventually(() => harness.engine.commands.activate({ bundle: 'ocp@4.13.2' }), 20_000);
    await run(B);
    await reach('4.13.1 superseded, 4.13.2 proven');
    expect(harness.engine.commands.rollback({ stream: 'ocp' })).toBe('ocp@4.13.1');
    await expect.poll(stable, { timeout: 60_000 }).toBe(referenceOf(A, 'etcd'));
    await expect
      .poll(() => history('4.13.1'), { timeout: 60_000 })
      .toEqual([...back, 'activation-requested', 'bundleActivated']);
  }, 150_000);

  it('pulls by a tag that only one release has succeed until it is retired, whichever one is activated', async () => {
    const [A, B] = await Promise.all([
      make(1, 'immediate', { api: '4.13.1' }),
      make(2, 'immediate', { api: '4.13.2' }),
    ]);
    const client = connectCri(double.socketPath);
    /** What a pod with `imagePullPolicy: Always` gets; there is no network. */
    const pull = async (name: string) => {
      await client.pullImage(`quay.example.com/ocp/${name}`);
      const image = (await images()).find(({ repo_tags }) => repo_tags.includes(`quay.example.com/ocp/${name}`));
      return image?.repo_digests[0];
    };
    const own = async () => [await pull('api:4.13.1'), await pull('api:4.13.2')];
    const both = [referenceOf(A, 'api'), referenceOf(B, 'api')];
    try {
      await harness.start();
      await preload(A);
      await run(A);
      await reach('4.13.1 proven');
      await expect(pull('api:4.13.2')).rejects.toThrow();
      await preload(B);
      expect([await own(), await pull('etcd:stable')]).toEqual([both, referenceOf(B, 'etcd')]);
      await run(B);
      await reach('4.13.1 superseded, 4.13.2 proven');
      expect(await own()).toEqual(both);
      expect(harness.engine.commands.rollback({ stream: 'ocp' })).toBe('ocp@4.13.1');
      await expect.poll(stable, { timeout: 60_000 }).toBe(referenceOf(A, 'etcd'));
      await harness.until(({ operation }) => operation === 'idle');
      expect([await own(), await pull('etcd:stable')]).toEqual([both, referenceOf(A, 'etcd')]);
      await harness.restart();
      await eventually(async () => expect(await own()).toEqual(both), 60_000);
      await run(A);
      await eventually(
        () =>
          harness.engine.commands.unpin(
            { bundle: 'ocp@4.13.2', force: true, removeImages: false },
            new AbortController().signal,
          ),
        60_000,
      );
      await harness.until((report) => report.bundles.some(({ phase }) => phase === 'retired'));
      await expect(pull('api:4.13.2')).rejects.toThrow();
      expect(await pull('api:4.13.1')).toBe(referenceOf(A, 'api'));
    } finally {
      client.close();
    }
  }, 240_000);
});
