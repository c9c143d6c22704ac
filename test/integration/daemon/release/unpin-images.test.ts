import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CriClient } from '../../../../src/runtime/cri/cri-client.ts';
import { programImage, programLayer } from '../../../support/bundles/program-image.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import type { SampleImage, SampleLayer } from '../../../support/bundles/sample-image.ts';
import { fixtureContainers } from '../../../support/crio-double/cri/fixture-containers.ts';
import { mirrorToml } from '../../../support/crio-double/source-and-double.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { createPods } from '../../../support/pods/pods.ts';
import { have } from '../../../support/requirements.ts';
import { startSourceRegistry } from '../../../support/source-registry.ts';

const HOST = 'quay.example.com';
const PATIENCE_MS = 60_000;
const signal = AbortSignal.timeout(600_000);
const podsProto = fileURLToPath(new URL('../../../support/pods', import.meta.url));

/** A daemon that is not started yet over a runtime with containers. */
interface Node {
  readonly harness: DaemonHarness;
  readonly socketPath: string;
  /** Sends the runtime to this registry for images of {@link HOST}, until the end of `work`. */
  withSource(host: string, work: () => Promise<void>): Promise<void>;
  /** Runs a container from this image, or ends it and takes it away. */
  run(image: string | undefined): Promise<void>;
  dispose(): Promise<void>;
}

const withCrio = async (): Promise<Node> => {
  const node = await createCrioNode();
  const { dirs, socketPath } = node.double();
  const file = join(dirs.registriesDropIns, '50-source.conf');
  const containers = fixtureContainers(node.double());
  return {
    harness: node.harness,
    socketPath,
    withSource: async (host, work) => {
      writeFileSync(file, mirrorToml(HOST, host));
      await node.double().reloadAndWait();
      await work();
      rmSync(file);
      await node.double().reloadAndWait();
    },
    run: async (image) => {
      if (image === undefined) containers.clear();
      else await containers.start('used', image);
    },
    dispose: node.dispose,
  };
};
const withContainerd = async (): Promise<Node> => {
  const containerd = await startContainerd({ withContainers: true });
  const { socketPath } = containerd;
  const harness = await createDaemonHarness({ settings: { runtime: { kind: 'containerd', socket: socketPath } } });
  const pods = createPods({ socketPath, protoRoot: podsProto });
  return {
    harness,
    socketPath,
    withSource: async (host, work) => {
      const { undo } = containerd.sendTo(host, HOST);
      await work();
      undo();
    },
    run: async (image) => void (await pods.sync(image === undefined ? {} : { used: image })),
    dispose: async () => {
      await harness.dispose();
      pods.close();
      await containerd.stop();
    },
  };
};

describe.runIf(have('root', 'mmdebstrap')).each([
  ['the CRI-O double', withCrio],
  ['containerd', withContainerd],
])('unpin --remove-images on %s', { timeout: 180_000 }, (_name, startNode) => {
  let program: SampleLayer;
  let node: Node;

  beforeAll(async () => {
    program = await programLayer();
  });
  beforeEach(async () => {
    node = await startNode();
  });

  const nameOf = (component: string, tag: string) => `${HOST}/ocp/${component}:${tag}`;
  /** A release with images of its own, and `tools`, which is the same in all. */
  const release = (sequence: number, own: readonly string[]) => {
    const version = `1.${sequence}.0`;
    const images = [
      ...own.map((component) => ({
        component,
        reference: nameOf(component, version),
        image: programImage(`${component}-${version}`, program),
      })),
      { component: 'tools', reference: nameOf('tools', '1'), image: programImage('tools', program) },
    ];
    return node.harness.make({ version, sequence, images });
  };
  const referenceIn = (bundle: SampleBundle, component: string) =>
    bundle.contents.images.find((image) => image.component === component)?.reference ?? '';
  /** What the runtime has of a release, by component. */
  const has = async ({ contents }: SampleBundle) => {
    const images = await node.harness.images();
    const listed = new Map(images.flatMap(({ repoDigests, pinned }) => repoDigests.map((name) => [name, pinned])));
    const state = (reference: string) => (listed.get(reference) ? 'pinned' : 'unpinned');
    return Object.fromEntries(
      contents.images.map(({ component = '', reference }) => [
        component,
        listed.has(reference) ? state(reference) : 'gone',
      ]),
    );
  };
  const phase = (wanted: string) => node.harness.report().bundles.find(({ version }) => version === wanted)?.phase;
  const bring = async (bundle: SampleBundle) => {
    node.harness.plug(bundle.path);
    await node.harness.until(
      ({ operation }) => operation === 'idle' && phase(bundle.payload.version) === 'activated',
      PATIENCE_MS,
    );
    node.harness.unplug();
  };
  /** Pulls images by other means than stickpin, by their digest and with no tag. */
  const pullBefore = async (images: Readonly<Record<string, SampleImage>>) => {
    const source = await startSourceRegistry();
    const cri = new CriClient({ socketPath: node.socketPath });
    await node.withSource(source.host, async () => {
      for (const [path, image] of Object.entries(images)) {
        source.add(path, image);
        await cri.pullImage(`${HOST}/${path}@${image.top.digest}`, signal);
      }
    });
    cri.close();
    await source.close();
  };

  it('removes exactly the images that only this release had, and a stick restores them', async () => {
    const { harness } = node;
    const a = await release(1, ['etcd', 'api', 'used', 'earlier']);
    const b = await release(2, ['etcd', 'api']);
    const other = programImage('other', program);
    await pullBefore({ 'other/thing': other, 'ocp/earlier': programImage('earlier-1.1.0', program) });
    await harness.start();
    await bring(a);
    await bring(b);
    await node.run(referenceIn(a, 'used'));
    const { engine } = harness;

    await engine.commands.unpin({ bundle: 'ocp@1.1.0', removeImages: true, force: true }, signal);
    const left = { etcd: 'gone', api: 'gone', used: 'unpinned', earlier: 'unpinned', tools: 'pinned' };
    await expect.poll(() => has(a), { timeout: PATIENCE_MS }).toEqual(left);
    // A test pull takes the pin label of containerd away for a moment.
    await expect
      .poll(() => has(b), { timeout: PATIENCE_MS })
      .toEqual({ etcd: 'pinned', api: 'pinned', tools: 'pinned' });
    expect(phase('1.1.0')).toBe('retired');
    expect(phase('1.2.0')).toBe('activated');
    const told = () => engine.history('ocp@1.1.0', 1_000).map(({ kind, message }) => `${kind}: ${message}`);
    expect(told()).toContain('bundleRetired: ocp 1.1.0 was unpinned by hand, with the images that only it has');
    await expect.poll(told).toContain('imagesRemoved: Removed 2 images that only ocp 1.1.0 had');

    // What a container used goes as soon as it is gone; it stays so over a restart of the daemon.
    await node.run(undefined);
    engine.kick();
    await expect.poll(() => has(a), { timeout: PATIENCE_MS }).toEqual({ ...left, used: 'gone' });
    await harness.restart();
    await harness.until(({ operation }) => operation === 'idle' && phase('1.1.0') === 'retired');
    await expect.poll(() => has(a), { timeout: PATIENCE_MS }).toEqual({ ...left, used: 'gone' });
    const names = (await harness.images()).flatMap(({ repoDigests }) => repoDigests);
    expect(names).toContain(`${HOST}/other/thing@${other.top.digest}`);

    // A release that a person gave up is not taken again by a stick alone.
    harness.plug(a.path);
    const offered = await harness.until(({ status }) => status.includes('1.1.0'), PATIENCE_MS);
    expect(offered.status).toMatch(/: ocp 1\.1\.0 was given up on this node\. .*stickpin activate ocp@1\.1\.0/);
    harness.engine.commands.activate({ bundle: 'ocp@1.1.0' });
    const whole = { etcd: 'pinned', api: 'pinned', used: 'pinned', earlier: 'pinned', tools: 'pinned' };
    await expect.poll(() => has(a), { timeout: PATIENCE_MS }).toEqual(whole);
    await harness.until(({ operation }) => operation === 'idle' && phase('1.1.0') === 'activated', PATIENCE_MS);
  });
});
