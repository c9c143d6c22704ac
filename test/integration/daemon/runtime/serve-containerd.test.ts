import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CriClient } from '../../../../src/runtime/cri/cri-client.ts';
import { hostArch, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { type SampleImage, sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { askedFor, publishMoved } from '../../../support/daemon/origin.ts';
import { type Containerd, startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../../support/source-registry.ts';

const unstopped = new AbortController().signal;

/** A registry of the network, in which the tag of the first image has moved. */
describe.runIf(have('root', 'mmdebstrap')).each(['1.7', '2'] as const)(
  'an activated release without its stick, on containerd %s',
  { timeout: 120_000 },
  (version) => {
    let origin: SourceRegistry;
    let containerd: Containerd;
    let harness: DaemonHarness;
    let cri: CriClient;
    let bundle: SampleBundle;
    let moved: SampleImage;

    beforeAll(async () => {
      origin = await startSourceRegistry();
      containerd = await startContainerd({ release: version, snapshotter: 'native' });
      containerd.sendTo(origin.host);
      const { socketPath } = containerd;
      harness = await createDaemonHarness({
        settings: { runtime: { kind: 'containerd', socket: socketPath, certs_dir: containerd.certsDirectory } },
      });
      bundle = await harness.make();
      moved = publishMoved(origin, bundle);
      cri = new CriClient({ socketPath });
      await harness.start();
      await harness.load(bundle.path);
      harness.unplug();
      await harness.until((report) => report.bundles[0]?.media.length === 0);
      await harness.until(({ conditions }) =>
        conditions.some(({ type, status }) => type === 'PullsAnswered' && status === 'True'),
      );
      origin.forget();
    }, 300_000);
    afterAll(async () => {
      cri.close();
      await harness.dispose();
      await containerd.stop();
      await origin.close();
    });

    const tagOf = (index: number) => bundle.contents.images[index]?.tags[0] ?? '';
    const referenceOf = (index: number) => bundle.contents.images[index]?.reference ?? '';
    const isPinned = async (reference: string) => (await cri.imageStatus(reference, unstopped))?.pinned;

    it('is pulled again by digest and by tag, in each case pinned again by itself, and the origin is not asked', async () => {
      for (const name of [referenceOf(0), tagOf(0), referenceOf(1), tagOf(1)]) {
        await cri.pullImage(name, unstopped);
        const reference = name.includes('@') ? name : referenceOf(name === tagOf(0) ? 0 : 1);
        await eventually(async () => expect(await isPinned(reference), name).toBe(true), 20_000);
        expect((await cri.imageStatus(name, unstopped))?.repoDigests).toContain(reference);
      }
      expect(askedFor(origin)).toBe(0);
    });

    it('keeps its pins while another client pulls again and again', async () => {
      for (let pull = 0; pull < 5; pull += 1) await cri.pullImage(referenceOf(0), unstopped);
      await eventually(async () => expect(await isPinned(referenceOf(0))).toBe(true), 20_000);
      expect(harness.report().bundles[0]).toMatchObject({ phase: 'activated', images: { total: 2, present: 2 } });
    });

    it('is pulled from the origin right after it was removed, by digest, and pinned again', async () => {
      const image = await cri.imageStatus(referenceOf(1), unstopped);
      await cri.removeImage(image?.imageId ?? '', unstopped);
      await cri.pullImage(referenceOf(1), unstopped);
      expect(askedFor(origin)).toBeGreaterThan(0);
      await eventually(async () => expect(await isPinned(referenceOf(1))).toBe(true), 40_000);
    });

    it('has the image of the origin under a tag that moved there, once its own is removed, until the stick is back', async () => {
      origin.forget();
      const image = await cri.imageStatus(referenceOf(0), unstopped);
      await cri.removeImage(image?.imageId ?? '', unstopped);
      await cri.pullImage(tagOf(0), unstopped);
      expect(askedFor(origin)).toBeGreaterThan(0);
      const now = await cri.imageStatus(tagOf(0), unstopped);
      expect(now?.repoDigests.map((name) => name.split('@')[1])).toEqual([moved.top.digest]);
      harness.engine.kick();
      await harness.until((report) => report.bundles[0]?.images.present === 1);
      harness.plugAgain();
      await eventually(async () => {
        expect((await cri.imageStatus(tagOf(0), unstopped))?.repoDigests).toContain(referenceOf(0));
        expect(await isPinned(referenceOf(0))).toBe(true);
      }, 60_000);
    });

    it('is pulled by its own tag while a newer release is activated, until it is retired', async () => {
      const newer = await harness.make({
        version: '4.13.8',
        sequence: 8,
        images: ['etcd', 'api'].map((name) => ({
          reference: `quay.example.com/coreos/${name}:4.13.8`,
          image: sampleImage({ seed: `${name} 4.13.8`, architecture: hostArch }),
        })),
      });
      harness.unplug();
      harness.plug(newer.path);
      await harness.until((report) => report.bundles[1]?.phase === 'activated' && report.operation === 'idle');
      harness.unplug();
      origin.forget();
      await cri.pullImage(tagOf(1), unstopped);
      expect((await cri.imageStatus(tagOf(1), unstopped))?.repoDigests).toContain(referenceOf(1));
      expect(askedFor(origin)).toBe(0);
      await harness.engine.commands.unpin({ bundle: bundle.bundleId, force: true, removeImages: false }, unstopped);
      await harness.until((report) => report.bundles[0]?.phase === 'retired');
      await cri.pullImage(tagOf(1), unstopped);
      expect(askedFor(origin)).toBeGreaterThan(0);
    });
  },
);
