import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Digest, hexOf } from '../../../../src/domain/model/digest.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { CriClient } from '../../../../src/runtime/cri/cri-client.ts';
import { openBootMark } from '../../../../src/store/files/boot-mark.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createFakeUnit } from '../../../support/bus/fake-unit.ts';
import {
  createDaemonHarness,
  type DaemonHarness,
  type SettingsOverrides,
} from '../../../support/daemon/daemon-harness.ts';
import { type Containerd, startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

const signal = AbortSignal.timeout(900_000);
const isActivated = ({ bundles, operation }: StatusReport) =>
  bundles[0]?.phase === 'activated' && operation === 'idle' && bundles[0].images.pinned === bundles[0].images.total;
const isDamaged = ({ bundles }: StatusReport) => bundles[0]?.degraded?.code === 'engine/image-damaged';
const isHealed = (report: StatusReport) => isActivated(report) && report.bundles[0]?.degraded === undefined;

/** Two images with one layer in common and one of their own. */
function makeBundle(dir: string, { key }: DaemonHarness): Promise<SampleBundle> {
  const images = ['etcd', 'api'].map((component) => ({
    component,
    reference: `quay.example.com/ocp/${component}:1`,
    image: sampleImage({ seed: component, layers: ['base', component].map((seed) => sampleLayer({ seed })) }),
  }));
  return makeSampleBundle({ dir, keys: [key], images });
}

/** Leaves what the daemon leaves when the node loses its power. */
async function cutPower({ settings }: DaemonHarness): Promise<void> {
  const path = join(settings.paths.state_dir, 'running.json');
  await openBootMark({ path, bootId: 'the boot before', now: 0, log: createRecordingLog() }, signal);
}

function markOf({ settings }: DaemonHarness): { readonly content: { readonly isCheckDue: boolean } } {
  return JSON.parse(readFileSync(join(settings.paths.state_dir, 'running.json'), 'utf8'));
}

describe.runIf(have('root', 'mmdebstrap'))('damaged images after a power cut', { timeout: 120_000 }, () => {
  let factory: string;
  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(() => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  });
  afterEach(() => rmSync(factory, { recursive: true, force: true }));

  describe('with containerd', () => {
    let containerd: Containerd;
    let harness: DaemonHarness;
    let bundle: SampleBundle;

    const setUp = async (settings: SettingsOverrides = {}) => {
      harness = await createDaemonHarness({
        settings: { ...settings, runtime: { kind: 'containerd', socket: containerd.socketPath } },
        units: createFakeUnit(async () => undefined).units,
      });
      bundle = await makeBundle(factory, harness);
      harness.plug(bundle.path);
      await harness.start();
      await harness.until(isActivated);
      harness.unplug();
      await harness.stop();
    };
    beforeEach(async () => {
      containerd = await startContainerd({ snapshotter: 'native' });
    });
    afterEach(async () => {
      await harness?.dispose();
      await containerd.stop();
    });

    const fileOf = (digest: Digest) =>
      join(dirname(containerd.socketPath), 'root/io.containerd.content.v1.content/blobs/sha256', hexOf(digest));
    const [isOwn, isShared] = [1, 2].map(
      (images) => (index: number) =>
        bundle.contents.images.filter(({ layers }) => layers.includes(index)).length === images,
    ) as [(index: number) => boolean, (index: number) => boolean];
    const layerThat = (fits: (index: number) => boolean) => {
      const found = bundle.contents.layers.find((_layer, index) => fits(index));
      if (found === undefined) throw new Error('the sample bundle has no such layer');
      return found;
    };

    it('stay and are named until the stick is there, and are then pulled again', async () => {
      await setUp();
      const { digest, sizeBytes } = layerThat(isOwn);
      truncateSync(fileOf(digest), 100);
      await cutPower(harness);
      await harness.start();
      const report = await harness.until(isDamaged);
      const damaged = bundle.contents.images.find(({ layers }) =>
        layers.includes(bundle.contents.layers.findIndex((one) => one.digest === digest)),
      );
      expect(report.bundles[0]?.degraded?.message).toContain(
        `${damaged?.reference}: ${digest.slice(0, 19)}… is truncated`,
      );
      expect(report.bundles[0]?.degraded?.message).toMatch(/plug in the stick of ocp \d/);
      await harness.until(({ status }) => status.includes('plug in the stick of'));
      await harness.rounds();
      expect((await harness.images()).flatMap(({ repoDigests }) => repoDigests)).toContain(damaged?.reference);
      expect(statSync(fileOf(digest)).size).toBe(100);
      const ofKind = (kind: string) => harness.log.kinds().filter((one) => one === kind);
      expect(ofKind('imageDamaged')).toHaveLength(1);
      await eventually(() => expect(ofKind('imagesChecked')).toHaveLength(1));

      harness.plugAgain();
      await harness.until(isHealed);
      expect(statSync(fileOf(digest)).size).toBe(sizeBytes);
      const [found] = (await harness.images()).filter(({ repoDigests }) =>
        repoDigests.includes(damaged?.reference ?? ''),
      );
      await expect
        .poll(async () => (await harness.images()).find(({ imageId }) => imageId === found?.imageId)?.repoTags, {
          timeout: 60_000,
        })
        .toEqual(damaged?.tags);
      await expect.poll(() => markOf(harness).content.isCheckDue, { timeout: 60_000 }).toBe(false);
      await harness.stop();
      expect(existsSync(join(harness.settings.paths.state_dir, 'running.json'))).toBe(false);
    });

    it('are healed without a stick from kept layers, with all images that share the damage', async () => {
      await setUp({ retention: { blobs: 'kept' } });
      const { digest, sizeBytes } = layerThat(isShared);
      truncateSync(fileOf(digest), 0);
      await cutPower(harness);
      await harness.start();
      await harness.until(
        () => harness.log.lines.some(({ message }) => message.includes('was removed; it is pulled')),
        120_000,
      );
      await harness.until(isHealed);
      expect(statSync(fileOf(digest)).size).toBe(sizeBytes);
      expect(harness.log.kinds().filter((kind) => kind === 'damagedImageRemoved')).toHaveLength(2);
    });

    it('are not looked for after a reboot in order, and are found by verify-images', async () => {
      await setUp();
      const { digest } = layerThat(isOwn);
      writeFileSync(fileOf(digest), readFileSync(fileOf(digest)).fill(0));
      await harness.start();
      await harness.until(isActivated);
      await harness.rounds();
      expect(harness.report().bundles[0]?.degraded).toBeUndefined();
      const images = await harness.daemon().engine.verifyImages('', signal);
      expect(images.map(({ result }) => result).sort()).toEqual(['damaged', 'whole']);
      expect(images.find(({ result }) => result === 'damaged')?.found).toBe(`${digest.slice(0, 19)}… is altered`);
      await harness.stop();
      await harness.start();
      await harness.until(isDamaged);
    });
  });

  describe('with CRI-O', () => {
    let node: CrioNode;
    afterEach(() => node?.dispose());
    /** A node whose release is activated, with the stick still in. */
    const activated = async () => {
      node = await createCrioNode();
      const { harness } = node;
      const bundle = await makeBundle(factory, harness);
      harness.plug(bundle.path);
      await harness.start();
      await harness.until(isActivated);
      return node;
    };

    it('are named, and are pulled again from the stick', async () => {
      const { harness } = await activated();
      harness.unplug();
      await harness.stop();

      const cri = new CriClient({ socketPath: node.double().socketPath });
      const layers = join((await cri.imageFilesystemPath(signal)) ?? '', '../vfs/dir');
      cri.close();
      // The storage of the double has the files of a layer in the folders of those above it, too.
      const files = readdirSync(layers).map((id) => join(layers, id, 'opt/etcd/file-0'));
      const [file = '', ...copies] = files.filter((candidate) => existsSync(candidate));
      expect(copies).toEqual([]);
      const { size } = statSync(file);
      truncateSync(file, 0);

      await cutPower(harness);
      await harness.start();
      const report = await harness.until(isDamaged);
      expect(report.bundles[0]?.degraded?.message).toMatch(
        /the file opt\/\S+\/file-0 of its layer [0-9a-f]{12} is truncated/,
      );
      harness.plugAgain();
      await harness.until(isHealed, 90_000);
      expect(statSync(file).size).toBe(size);
    });

    it('that keep CRI-O from listing any are told with what to do, and are pulled again after a repair', async () => {
      const { harness } = await activated();
      const { graphRoot } = node.double().dirs;
      const [layersFile, imagesFile] = ['vfs-layers/layers.json', 'vfs-images/images.json'].map((name) =>
        join(graphRoot, name),
      ) as [string, string];
      const recorded = JSON.parse(readFileSync(layersFile, 'utf8')) as { readonly id: string; parent?: string }[];
      const lost = recorded.find(({ parent }) => parent !== undefined)?.id;
      writeFileSync(layersFile, JSON.stringify(recorded.filter(({ id }) => id !== lost)));
      harness.daemon().engine.kick();
      const report = await harness.until(({ runtime }) => runtime.reason !== undefined);
      const advice = /its storage is damaged.*crio check --quick --repair --force/;
      expect(report.status).toMatch(advice);
      expect(report.status.length).toBeLessThanOrEqual(200);
      const toldWhy = new RegExp(`${advice.source}.*layer not known`);
      const told = harness.log.lines.filter(({ fields }) => fields.messageId === messageIds.imagesUnlisted);
      expect(told.map(({ message }) => message)).toContainEqual(expect.stringMatching(toldWhy));
      // What the repair does: the image without its layer goes.
      const images = JSON.parse(readFileSync(imagesFile, 'utf8')) as { readonly layer?: string }[];
      writeFileSync(imagesFile, JSON.stringify(images.filter(({ layer }) => layer !== lost)));
      harness.daemon().engine.kick();
      await harness.until((now) => now.runtime.reason === undefined && isActivated(now), 120_000);
      expect(await harness.images()).toHaveLength(2);
    });
  });
});
