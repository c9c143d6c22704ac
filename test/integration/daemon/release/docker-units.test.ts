import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { EngineClient } from '../../../../src/runtime/docker/engine-client.ts';
import { programImage, programLayer } from '../../../support/bundles/program-image.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import type { SampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type DockerEngine, startDockerEngine } from '../../../support/daemon/runtimes/docker-engine.ts';
import { have } from '../../../support/requirements.ts';
import { startSourceRegistry } from '../../../support/source-registry.ts';

const PATIENCE_MS = 60_000;
const FEATURES = ['swss', 'bgp'] as const;
type Feature = (typeof FEATURES)[number];

const repository = (feature: Feature) => `quay.example.com/sonic/${feature}`;
const tagOf = (feature: Feature, version: number | 'latest') =>
  `${repository(feature)}:${version === 'latest' ? version : `v${version}.0.0`}`;

interface Container {
  readonly Id: string;
  readonly Image: string;
  readonly State: { readonly Running: boolean };
}

/**
 * A switch with Docker: a unit for each feature starts its container of `<feature>:latest`, and
 * makes it when there is none; a control plane runs a version beside, while the unit is stopped.
 */
describe.runIf(have('root', 'mmdebstrap')).each(['Docker 26', 'Docker 26, containerd store'] as const)(
  'a node whose units start containers of %s by latest',
  { timeout: 300_000 },
  (kind) => {
    const signal = AbortSignal.timeout(900_000);
    let program: SampleLayer;
    let engine: DockerEngine;
    let client: EngineClient;
    let harness: DaemonHarness;

    beforeAll(async () => {
      program = await programLayer();
    }, 300_000);
    beforeEach(async () => {
      engine = await startDockerEngine(kind);
      client = new EngineClient(engine.socketPath);
      harness = await createDaemonHarness({
        settings: {
          runtime: { kind: 'docker', socket: engine.socketPath },
          lifecycle: { soak: 1_000 },
          streams: {
            sonic: { tag_after_proof: ['latest'], replace_stopped: [...FEATURES], local_images: 'retire' },
          },
        },
      });
    }, 300_000);
    afterEach(async () => {
      await harness?.dispose();
      client?.close();
      await engine?.stop();
    });

    const make = (version: number) =>
      harness.make({
        name: 'sonic',
        version: `${version}.0.0`,
        sequence: version,
        images: FEATURES.map((feature) => ({
          component: feature,
          reference: tagOf(feature, version),
          image: programImage(`${feature}-${version}`, program),
        })),
      });
    const container = (name: string) =>
      engine.api('GET', `/containers/${name}/json`).then(
        (found) => found as Container,
        () => undefined,
      );
    const imageId = async (tag: string) => (await client.imageDetails(tag, signal))?.Id;
    const run = async (name: string, image: string) => {
      const body = { Image: image, HostConfig: { NetworkMode: 'host' } };
      await engine.api('POST', `/containers/create?name=${name}`, body);
      await engine.api('POST', `/containers/${name}/start`);
    };
    /** As `docker start swss || docker run --name swss …:latest`. */
    const startUnits = async () => {
      for (const feature of FEATURES) {
        if ((await container(feature)) === undefined) await run(feature, tagOf(feature, 'latest'));
        else await engine.api('POST', `/containers/${feature}/start`);
      }
    };
    const stopUnits = async () => {
      for (const feature of FEATURES) await engine.api('POST', `/containers/${feature}/stop?t=5`);
    };
    const deploy = async (version: number) => {
      for (const feature of FEATURES) {
        await engine.api('DELETE', `/containers/pod-${feature}?force=1`).catch(() => undefined);
        await run(`pod-${feature}`, tagOf(feature, version));
      }
    };
    const bring = async (bundle: SampleBundle, version: number) => {
      harness.plug(bundle.path);
      await become({ [`${version}.0.0`]: 'activated' });
      harness.unplug();
    };
    const become = async (wanted: Readonly<Record<string, string>>) => {
      const phases = () => {
        harness.engine.kick();
        return Object.fromEntries(harness.report().bundles.map(({ version, phase }) => [version, phase]));
      };
      await expect.poll(phases, { timeout: PATIENCE_MS, interval: 200 }).toMatchObject(wanted);
    };
    const runsFrom = async (feature: Feature) => {
      const found = await container(feature);
      return found?.State.Running ? found.Image : undefined;
    };
    /** The node came with these images, under their version and `latest`; the units run them. */
    const install = async (version: number) => {
      const registry = await startSourceRegistry();
      for (const feature of FEATURES) {
        registry.add(feature, programImage(`installed-${feature}-${version}`, program), ['1']);
        const source = `${registry.host}/${feature}:1`;
        await client.pull(source, source, signal);
        const id = (await imageId(source)) ?? '';
        await client.tag(id, repository(feature), `v${version}.0.0`, signal);
        await client.tag(id, repository(feature), 'latest', signal);
        await client.removeName(source, signal);
      }
      await registry.close();
      await startUnits();
    };
    const idsOf = (version: number | 'latest') =>
      Promise.all(FEATURES.map((feature) => imageId(tagOf(feature, version))));
    const latestIs = async (version: number) => {
      const latest = () => {
        harness.engine.kick();
        return idsOf('latest');
      };
      await expect.poll(latest, { timeout: PATIENCE_MS, interval: 200 }).toEqual(await idsOf(version));
    };
    const idsLeft = (ids: readonly (string | undefined)[]) => {
      harness.engine.kick();
      return Promise.all(ids.map(async (id) => (await client.imageDetails(id ?? '', signal))?.Id));
    };
    const isThere = async ({ contents }: SampleBundle) => {
      const listed = (await harness.images()).flatMap(({ repoDigests }) => repoDigests);
      return contents.images.every(({ reference }) => listed.includes(reference));
    };

    it('boots into the release that was proven last, keeps the one before it, and no older one', async () => {
      await harness.start();
      const first = await make(1);
      await bring(first, 1);
      await deploy(1);
      await become({ '1.0.0': 'proven' });
      await latestIs(1);
      await startUnits();
      const old = await container('swss');
      await stopUnits();
      const second = await make(2);
      await bring(second, 2);
      await latestIs(1);
      await deploy(2);
      await become({ '2.0.0': 'proven' });
      await latestIs(2);
      for (const feature of FEATURES)
        await expect.poll(() => container(feature), { timeout: PATIENCE_MS }).toBeUndefined();
      expect(old?.Image).toBe(await imageId(tagOf('swss', 1)));
      await harness.stop();
      await engine.kill();
      await engine.start();
      await startUnits();
      for (const feature of FEATURES) expect(await runsFrom(feature)).toBe(await imageId(tagOf(feature, 2)));

      await harness.start();
      const third = await make(3);
      await bring(third, 3);
      await stopUnits();
      await deploy(3);
      await become({ '1.0.0': 'retired', '2.0.0': 'superseded', '3.0.0': 'proven' });
      await latestIs(3);
      await expect.poll(() => isThere(first), { timeout: PATIENCE_MS }).toBe(false);
      expect(await isThere(second)).toBe(true);
      await expect.poll(() => idsOf(1), { timeout: PATIENCE_MS }).toEqual([undefined, undefined]);
    });

    /** cri-dockerd's `RemoveImage`, which the kubelet calls for each image that no pod uses. */
    const collect = async (id: string) => {
      const { RepoTags = [], RepoDigests = [] } = (await client.imageDetails(id, signal)) ?? {};
      const removed: string[] = [];
      for (const name of [...RepoTags, ...RepoDigests, id]) {
        try {
          await engine.api('DELETE', `/images/${encodeURIComponent(name)}?noprune=0`);
        } catch (error) {
          if (!String(error).includes(': 404 ')) break;
        }
        removed.push(name);
      }
      return removed;
    };

    it("keeps latest when the kubelet collects images by cri-dockerd's calls, and boots into it", async () => {
      await harness.start();
      const first = await make(1);
      await bring(first, 1);
      await deploy(1);
      await become({ '1.0.0': 'proven' });
      await latestIs(1);
      const wanted = await idsOf('latest');
      for (const feature of FEATURES) await engine.api('DELETE', `/containers/pod-${feature}?force=1`);
      for (let times = 1; times <= 2; times += 1) {
        for (const id of wanted)
          expect(await collect(id ?? '')).toContain(tagOf(FEATURES[wanted.indexOf(id)] ?? 'bgp', 'latest'));
        const names = async () => [...(await idsOf('latest')), ...(await idsOf(1))];
        await expect.poll(names, { timeout: PATIENCE_MS, interval: 200 }).toEqual([...wanted, ...wanted]);
      }
      expect(await isThere(first)).toBe(true);
      expect(harness.report().bundles[0]?.degraded).toBeUndefined();
      await harness.stop();
      await engine.kill();
      await engine.start();
      await startUnits();
      for (const [at, feature] of FEATURES.entries()) expect(await runsFrom(feature)).toBe(wanted[at]);
    });

    it('keeps its images over a collection, a clean-up of images, and one of containers while it is down', async () => {
      await harness.start();
      const first = await make(1);
      await bring(first, 1);
      const digestTags = first.contents.images.map(({ reference }) => reference.replace('@sha256:', ':sha256-'));
      const wanted = await idsOf(1);
      for (const id of wanted) expect(await collect(id ?? '')).toContain(digestTags[wanted.indexOf(id)]);
      const ids = () => Promise.all(digestTags.map(imageId));
      await expect.poll(ids, { timeout: PATIENCE_MS, interval: 200 }).toEqual(wanted);
      await engine.api('POST', `/images/prune?filters=${encodeURIComponent(JSON.stringify({ dangling: ['false'] }))}`);
      await expect.poll(ids, { timeout: PATIENCE_MS, interval: 200 }).toEqual(wanted);
      await harness.stop();
      await engine.api('POST', '/containers/prune');
      await harness.start();
      await become({ '1.0.0': 'activated' });
      expect(await isThere(first)).toBe(true);
      expect(harness.report().bundles[0]?.degraded).toBeUndefined();
    });

    it('leaves a version to the image that runs from it, and drops the one of the stick for the next version', async () => {
      await install(1);
      const [installed, running] = [await idsOf(1), await container('swss')];
      await harness.start();
      const first = await make(1);
      await bring(first, 1);
      expect(await isThere(first)).toBe(true);
      expect([await idsOf(1), await idsOf('latest'), await container('swss')]).toEqual([installed, installed, running]);
      await bring(await make(2), 2);
      await stopUnits();
      await deploy(2);
      await become({ '1.0.0': 'retired', '2.0.0': 'proven' });
      await latestIs(2);
      await expect.poll(() => isThere(first), { timeout: PATIENCE_MS }).toBe(false);
      expect(await idsOf(1)).toEqual(installed);
      // That of the image that the node came with goes, so that the unit makes a new one.
      for (const feature of FEATURES)
        await expect.poll(() => container(feature), { timeout: PATIENCE_MS }).toBeUndefined();
      await startUnits();
      for (const feature of FEATURES) expect(await runsFrom(feature)).toBe(await imageId(tagOf(feature, 2)));
      // Case 3, from case 1: with the next proof the image that the node came with goes.
      await bring(await make(3), 3);
      await stopUnits();
      await deploy(3);
      await become({ '2.0.0': 'superseded', '3.0.0': 'proven' });
      await latestIs(3);
      const gone = () => idsLeft(installed);
      await expect.poll(gone, { timeout: PATIENCE_MS }).toEqual([undefined, undefined]);
      expect(await idsOf(2)).not.toContain(undefined);
    });

    it('replaces a newer version that the node came with by that of the other nodes', async () => {
      await install(3);
      const installed = await idsOf(3);
      await harness.start();
      await bring(await make(2), 2);
      expect(await idsOf('latest')).toEqual(installed);
      await stopUnits();
      await deploy(2);
      await become({ '2.0.0': 'proven' });
      await latestIs(2);
      const gone = () => idsLeft(installed);
      await expect.poll(gone, { timeout: PATIENCE_MS }).toEqual([undefined, undefined]);
    });
  },
);
