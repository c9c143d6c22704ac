import { statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectCri, type TestCriClient } from '../../../support/crio-double/cri/cri-client.ts';
import { askedFor } from '../../../support/daemon/origin.ts';
import { createServedNode, type ServedNode } from '../../../support/daemon/runtimes/served-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';

describe.runIf(have('root', 'mmdebstrap'))(
  'an activated release without its stick, on the CRI-O double',
  { timeout: 120_000 },
  () => {
    let served: ServedNode;
    let client: TestCriClient;

    beforeAll(async () => {
      served = await createServedNode();
      client = connectCri(served.node.double().socketPath);
    }, 180_000);
    afterAll(async () => {
      client.close();
      await served.dispose();
    });

    it('is pulled again by digest, and by a tag that the origin has moved, without a request to the origin', async () => {
      await client.pullImage(served.referenceOf(0));
      await client.pullImage(served.tagOf(0));
      const image = (await served.node.harness.images()).find(({ repoTags }) => repoTags.includes(served.tagOf(0)));
      expect(image?.repoDigests).toContain(served.referenceOf(0));
      expect(askedFor(served.origin)).toBe(0);
    });

    it('writes configuration files that all users can read, for their skopeo and podman', () => {
      const { registriesDropIns } = served.node.double().dirs;
      expect(statSync(join(registriesDropIns, '99-stickpin.conf')).mode & 0o777).toBe(0o644);
    });

    const remove = async (reference = served.referenceOf(1)) => {
      const image = (await served.node.harness.images()).find(({ repoDigests }) => repoDigests.includes(reference));
      await client.removeImage(image?.imageId ?? '');
    };

    it('is pulled from the origin right after it was removed, and fails at once if the origin lacks it', async () => {
      await remove();
      await client.pullImage(served.referenceOf(1));
      expect(askedFor(served.origin)).toBeGreaterThan(0);
      expect((await served.node.harness.images()).flatMap(({ repoDigests }) => repoDigests)).toContain(
        served.referenceOf(1),
      );
      await remove();
      for (const digest of served.bundle.images.map(({ image }) => image.top.digest)) served.origin.drop(digest);
      await expect(client.pullImage(served.referenceOf(1))).rejects.toThrow();
    });

    it('keeps its mirrors and their token over a restart of the daemon', async () => {
      const before = await mirrorsNow();
      expect(before.length).toBeGreaterThan(0);
      await served.node.harness.stop();
      await served.node.harness.start();
      await served.node.harness.activated();
      await expect.poll(mirrorsNow, { timeout: 60_000 }).toEqual(before);
      // Its port is another one here, and CRI-O reads that a little later.
      await eventually(() => client.pullImage(served.referenceOf(0)), 20_000);
    });

    it('has the image of the origin under a tag that moved there, once its own is removed, until the stick is back', async () => {
      served.origin.forget();
      await remove(served.referenceOf(0));
      await client.pullImage(served.tagOf(0));
      expect(askedFor(served.origin)).toBeGreaterThan(0);
      const underTag = async () =>
        (await served.node.harness.images()).find(({ repoTags }) => repoTags.includes(served.tagOf(0)));
      expect((await underTag())?.repoDigests.map((name) => name.split('@')[1])).toEqual([served.moved.top.digest]);
      served.node.harness.engine.kick();
      await served.node.harness.until((report) => report.bundles[0]?.images.present === 0);
      expect(served.node.harness.report().bundles[0]?.phase).toBe('activated');
      served.node.harness.plugAgain();
      await expect
        .poll(async () => (await underTag())?.repoDigests.includes(served.referenceOf(0)), { timeout: 60_000 })
        .toBe(true);
      await served.node.harness.until((report) => report.bundles[0]?.images.pinned === 2);
    });

    const mirrorsNow = async () => {
      const seen = await served.node.harness.daemon().observeRuntime(new AbortController().signal);
      return seen.kind === 'reachable' ? seen.renderedMirrors : [];
    };
  },
);
