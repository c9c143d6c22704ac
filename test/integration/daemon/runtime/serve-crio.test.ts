import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { connectCri, type TestCriClient } from '../../../support/crio-double/cri/cri-client.ts';
import { mirrorToml } from '../../../support/crio-double/source-and-double.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';
import { type SourceRegistry, startSourceRegistry } from '../../../support/source-registry.ts';

const run = promisify(execFile);

/** A registry of the network, in which the tag of the first image has moved. */
describe.runIf(have('root', 'mmdebstrap', 'skopeo'))(
  'an activated release without its stick, on the CRI-O double',
  { timeout: 120_000 },
  () => {
    let origin: SourceRegistry;
    let node: CrioNode;
    let client: TestCriClient;
    let factory: string;
    let bundle: SampleBundle;
    const moved = sampleImage({ seed: 'moved' });

    beforeAll(async () => {
      await trixieRoot();
      factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
      origin = await startSourceRegistry();
      const files = { 'etc/containers/registries.conf.d/50-origin.conf': mirrorToml('quay.example.com', origin.host) };
      node = await createCrioNode({}, { files });
      bundle = await makeSampleBundle({ dir: factory, keys: [node.harness.key] });
      for (const { reference, image } of bundle.images) {
        const [path = '', tag = ''] = reference.split('/').slice(1).join('/').split(':');
        origin.add(path, image, [tag]);
      }
      const [path = '', tag = ''] = tagOf(0).split('/').slice(1).join('/').split(':');
      origin.add(path, moved, [tag]);
      client = connectCri(node.double().socketPath);
      await node.harness.start();
      node.harness.plug(bundle.path);
      await node.harness.until(
        (report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle',
        60_000,
      );
      node.harness.unplug();
      await node.harness.until((report) => report.bundles[0]?.media.length === 0);
      origin.forget();
    }, 180_000);
    afterAll(async () => {
      client.close();
      await node.dispose();
      await origin.close();
      rmSync(factory, { recursive: true, force: true });
    });

    const tagOf = (index: number) => bundle.contents.images[index]?.tags[0] ?? '';
    const referenceOf = (index: number) => bundle.contents.images[index]?.reference ?? '';
    const asked = () => origin.requests.filter(({ kind }) => kind !== 'ping').length;
    /** A home in which programs find the registries configuration of the double. */
    const home = () => {
      const { registriesDropIns } = node.double().dirs;
      const folder = join(factory, 'home/.config/containers');
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, 'registries.conf'), '');
      cpSync(registriesDropIns, join(folder, 'registries.conf.d'), { recursive: true, dereference: true, force: true });
      return join(factory, 'home');
    };

    it('is pulled again by digest, and by a tag that the origin has moved, without a word to the origin', async () => {
      await client.pullImage(referenceOf(0));
      await client.pullImage(tagOf(0));
      const image = (await node.harness.images()).find(({ repoTags }) => repoTags.includes(tagOf(0)));
      expect(image?.repoDigests).toContain(referenceOf(0));
      expect(asked()).toBe(0);
    });

    it("leaves root's skopeo to the origin, since the layers are not here", async () => {
      const target = join(factory, 'copied');
      await run('skopeo', ['copy', `docker://${referenceOf(1)}`, `dir:${target}`], {
        env: { ...process.env, HOME: home() },
      });
      expect(asked()).toBeGreaterThan(0);
      origin.forget();
    });

    it('lets every user read what skopeo and podman of every user read', () => {
      const { registriesDropIns } = node.double().dirs;
      expect(statSync(join(registriesDropIns, '99-stickpin.conf')).mode & 0o777).toBe(0o644);
    });

    it('is pulled from the origin right after it was removed, and fails at once where that has it not', async () => {
      const remove = async () => {
        const image = (await node.harness.images()).find(({ repoDigests }) => repoDigests.includes(referenceOf(1)));
        await client.removeImage(image?.imageId ?? '');
      };
      await remove();
      await client.pullImage(referenceOf(1));
      expect(asked()).toBeGreaterThan(0);
      expect((await node.harness.images()).flatMap(({ repoDigests }) => repoDigests)).toContain(referenceOf(1));
      await remove();
      for (const digest of bundle.images.map(({ image }) => image.top.digest)) origin.drop(digest);
      await expect(client.pullImage(referenceOf(1))).rejects.toThrow();
    });

    it('keeps its mirrors and their token over a restart of the daemon', async () => {
      const before = await mirrorsNow();
      expect(before.length).toBeGreaterThan(0);
      await node.harness.stop();
      await node.harness.start();
      await node.harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
      await expect.poll(mirrorsNow, { timeout: 20_000 }).toEqual(before);
      // Its port is another one here, and CRI-O reads that a little later.
      await eventually(() => client.pullImage(referenceOf(0)), 20_000);
    });

    const mirrorsNow = async () => {
      const seen = await node.harness.daemon().observeRuntime(new AbortController().signal);
      return seen.kind === 'reachable' ? seen.renderedMirrors : [];
    };
  },
);
