import { cpSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import { CriClient } from '../../../../src/runtime/cri/cri-client.ts';
import { openBootMark } from '../../../../src/store/files/boot-mark.ts';
import { installKeys, makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { connectCri } from '../../../support/crio-double/cri/cri-client.ts';
import { fixtureContainers } from '../../../support/crio-double/cri/fixture-containers.ts';
import type { SettingsOverrides } from '../../../support/daemon/daemon-harness.ts';
import { expectWholeNode, listedReferences } from '../../../support/daemon/model/node-consistency.ts';
import type { MortalOrder, Point } from '../../../support/daemon/mortal-daemon/order.ts';
import { type MortalDaemon, startMortalDaemon } from '../../../support/daemon/mortal-daemon/start-mortal-daemon.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { createRecordingLog } from '../../../support/recording-log.ts';
import { have } from '../../../support/requirements.ts';
import { trixieRoot } from '../../../support/rootfs/trixie-root.ts';

type Story = 'preload' | 'damaged' | 'broken-image' | 'stopped' | 'lost-tag' | 'life';

/**
 * In which story the daemon is killed at each point. A new kind of effect has no place here yet,
 * and this no longer compiles.
 */
const STORY_OF: Readonly<Record<Point, Story>> = {
  'mount-medium': 'preload',
  'read-medium': 'preload',
  'bundle-being-read': 'preload',
  'keep-documents': 'preload',
  'adopt-bundle': 'preload',
  'apply-mirrors': 'preload',
  'start-pull': 'preload',
  'layer-begun': 'preload',
  'image-pulled': 'preload',
  'apply-pins': 'preload',
  'record-ready': 'preload',
  'run-hook': 'preload',
  'start-activate': 'preload',
  'tag-pulled': 'preload',
  'record-signers': 'preload',
  'record-bad-blobs': 'damaged',
  'heal-images': 'broken-image',
  cancel: 'stopped',
  'record-media-left': 'stopped',
  'resume-preload': 'stopped',
  'start-restore-tags': 'lost-tag',
  'record-soak': 'life',
  'record-active': 'life',
  'record-rolled-back': 'life',
  'record-proven': 'life',
  retire: 'life',
  'remove-images': 'life',
  'request-activation': 'life',
  'take-over': 'life',
  'forget-release': 'life',
};
const signal = new AbortController().signal;
const pointsOf = (story: Story) => (Object.keys(STORY_OF) as Point[]).filter((point) => STORY_OF[point] === story);

/**
 * The daemon as a process, over the CRI-O double with real skopeo. SIGKILL comes from within, right
 * after an effect, so that nothing more is done.
 */
describe.runIf(have('root', 'mmdebstrap'))(
  'a daemon that is killed after an effect continues after its restart',
  () => {
    const second = sampleKey('second');
    let factory: string;
    let node: CrioNode;
    let alive: MortalDaemon | undefined;
    let killedAt: Point[];

    beforeAll(async () => {
      await trixieRoot();
    });
    afterEach(async () => {
      await alive?.kill();
      await node.dispose();
      rmSync(factory, { recursive: true, force: true });
    });

    const setUp = async (settings: SettingsOverrides = {}) => {
      factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
      node = await createCrioNode(settings);
      killedAt = [];
    };
    const start = async (order: Omit<MortalOrder, 'settings' | 'crioPid'> = {}): Promise<MortalDaemon> => {
      const crioPid = node.double().process.pid ?? 0;
      alive = await startMortalDaemon({ settings: node.harness.settings, crioPid, ...order });
      return alive;
    };
    /** One life that ends at this point. */
    const dieAt = async (
      point: Point,
      bundle?: SampleBundle,
      meanwhile: () => void | Promise<void> = () => undefined,
    ) => {
      const daemon = await start({ dieAt: point, layers: bundle?.contents.layers.map(({ digest }) => digest) ?? [] });
      await meanwhile();
      await daemon.died();
      killedAt.push(point);
    };
    /** One life in order, up to what is waited for. */
    const live = async (isIt: (report: StatusReport) => boolean, order: Parameters<typeof start>[0] = {}) => {
      const daemon = await start(order);
      const report = await daemon.until(isIt);
      await daemon.stop();
      return report;
    };
    const isSettled =
      (version: string, phase = 'activated') =>
      ({ bundles, operation }: StatusReport) =>
        operation === 'idle' && bundles.some((entry) => entry.version === version && entry.phase === phase);
    const make = (
      version: string,
      seed = version,
      { keys = [node.harness.key], ...over }: Partial<Parameters<typeof makeSampleBundle>[0]> = {},
    ) =>
      makeSampleBundle({
        ...over,
        dir: factory,
        version,
        sequence: Number(version.split('.').at(-1)),
        keys,
        images: ['etcd', 'api'].map((component) => ({
          component,
          reference: `quay.example.com/ocp/${component}:${seed}`,
          image: sampleImage({
            seed: `${component}-${seed}`,
            layers: [sampleLayer({ seed: `base-${seed}` }), sampleLayer({ seed: `${component}-${seed}` })],
          }),
        })),
      });
    const expectWhole = (hasLostImages = false) =>
      expectWholeNode(node.harness.settings.paths.state_dir, node.double(), { keepsMirrors: false, hasLostImages });
    /** Truncates a file of the layer of this seed in the storage of the runtime. */
    const breakLayer = async (seed: string) => {
      const cri = new CriClient({ socketPath: node.double().socketPath });
      const images = await cri.imageFilesystemPath(signal);
      cri.close();
      const layers = join(images ?? '', '../vfs/dir');
      const files = readdirSync(layers).map((id) => join(layers, id, 'opt', seed, 'file-0'));
      const [file = ''] = files.filter((candidate) => existsSync(candidate));
      truncateSync(file, 1);
    };

    it('from the insertion of a stick to the activation', { timeout: 240_000 }, async () => {
      await setUp({ hooks: { 'before-activate': 'before.service' } });
      const bundle = await make('4.13.7', '4.13.7', { keys: [node.harness.key, second] });
      node.harness.plug(bundle.path);
      const points = pointsOf('preload').filter((point) => point !== 'record-signers');
      for (const point of points) await dieAt(point, bundle);
      await live(isSettled('4.13.7'));
      await dieAt('record-signers', bundle, () => installKeys(node.harness.keysFolder, [second]));
      const done = await live(isSettled('4.13.7'));
      expect(done.bundles[0]?.images).toEqual({ total: 2, present: 2, pinned: 2 });
      expect(killedAt).toEqual(pointsOf('preload'));
      await expectWhole();
    });

    it('with a stick that has a damaged copy, and then a good one', { timeout: 240_000 }, async () => {
      await setUp();
      const bundle = await make('4.13.7');
      const copy = join(factory, 'damaged', basename(bundle.path));
      cpSync(bundle.path, copy, { recursive: true });
      const [first] = bundle.contents.layers.map(({ digest }) => hexOf(digest));
      truncateSync(join(copy, `blobs/sha256/${first}`), 10);
      node.harness.plug(copy);
      await dieAt('record-bad-blobs', bundle);
      node.harness.unplug();
      await live(({ bundles }) => bundles[0]?.reason?.code === 'engine/needs-copy');
      node.harness.plug(bundle.path);
      await dieAt('record-bad-blobs', bundle);
      const done = await live(isSettled('4.13.7'));
      expect(done.bundles[0]?.degraded).toBeUndefined();
      expect(new Set(killedAt)).toEqual(new Set(pointsOf('damaged')));
      await expectWhole();
    });

    it('while an image is healed after an unclean boot', { timeout: 240_000 }, async () => {
      await setUp();
      const bundle = await make('4.13.7');
      node.harness.plug(bundle.path);
      await live(isSettled('4.13.7'));
      await breakLayer('etcd-4.13.7');
      const path = join(node.harness.settings.paths.state_dir, 'running.json');
      await openBootMark({ path, bootId: 'the boot before', now: 0, log: createRecordingLog() }, signal);
      await dieAt('heal-images', bundle);
      const done = await live((report) => isSettled('4.13.7')(report) && report.bundles[0]?.images.pinned === 2);
      expect(done.bundles[0]?.degraded).toBeUndefined();
      expect(killedAt).toEqual(pointsOf('broken-image'));
      await expectWhole(true);
    });

    it('while a lost tag is restored', { timeout: 240_000 }, async () => {
      await setUp();
      const bundle = await make('4.13.7');
      node.harness.plug(bundle.path);
      await live(isSettled('4.13.7'));
      const client = connectCri(node.double().socketPath);
      try {
        const tag = bundle.contents.images[0]?.tags[0] ?? '';
        const isNamed = async () => (await client.listImages()).some((image) => image.repo_tags.includes(tag));
        expect(await isNamed()).toBe(true);
        await client.removeImage(tag);
        await dieAt('start-restore-tags', bundle);
        const daemon = await start();
        await eventually(async () => expect(await isNamed()).toBe(true), 60_000);
        await daemon.until(isSettled('4.13.7'));
        await daemon.stop();
      } finally {
        client.close();
      }
      expect(killedAt).toEqual(pointsOf('lost-tag'));
      await expectWhole();
    });

    it('while a preload is stopped, and resumed', { timeout: 240_000 }, async () => {
      await setUp();
      const { settings, keysFolder } = node.harness;
      const other = join(node.harness.base, 'other');
      Object.assign(settings.media, { directories: [...settings.media.directories, other] });
      const bundle = await make('4.13.7');
      const held = bundle.contents.layers.map(({ digest }) => digest);
      const isMoving = ({ progress }: StatusReport) => progress.doneBytes > 0;
      node.harness.plug(bundle.path);
      const daemon = await start({ dieAt: 'cancel', held });
      await daemon.until(isMoving);
      // Trust withdrawn is what stops a pull that runs. What is revoked is remembered, so that this
      // can only be unreadable.
      const revocation = join(keysFolder, 'factory.revoked');
      writeFileSync(revocation, 'nonsense', { mode: 0o644 });
      await daemon.died();
      killedAt.push('cancel');
      rmSync(revocation);

      const next = await start({ held });
      await next.until(isMoving);
      next.tell({ kind: 'cancel' });
      await next.until(({ status }) => status.includes('cancelled'));
      await next.kill();
      const still = await live(({ status }) => status.includes('cancelled'));
      expect(still.bundles[0]?.images.present).toBe(0);
      node.harness.unplug();
      await dieAt('record-media-left');
      await dieAt('resume-preload', bundle, () => renameSync(join(node.harness.base, 'pocket'), other));
      await live(isSettled('4.13.7'));
      expect(killedAt).toEqual(pointsOf('stopped'));
      await expectWhole();
    });

    it('through all phases of a release', { timeout: 240_000 }, async () => {
      await setUp({ lifecycle: { soak: 300, keep: 1 } });
      const containers = fixtureContainers(node.double());
      const run = async (bundle: SampleBundle) => {
        for (const { component = '', reference } of bundle.contents.images)
          await containers.start(component, reference);
      };
      const swapTo = async (bundle: SampleBundle, phase = 'activated') => {
        node.harness.plug(bundle.path);
        await live(isSettled(bundle.payload.version, phase));
        node.harness.unplug();
      };
      const first = await make('4.13.1');
      await swapTo(first);
      await run(first);
      await dieAt('record-soak');
      await dieAt('record-active');
      await live(isSettled('4.13.1', 'proven'));

      const bad = await make('4.13.2');
      await swapTo(bad);
      await run(bad);
      // It runs, and does not prove itself.
      containers.end('api', 1);
      await live(isSettled('4.13.2', 'active'));
      await run(first);
      await dieAt('record-rolled-back');

      const good = await make('4.13.3');
      await swapTo(good);
      await run(good);
      await dieAt('record-proven');
      await dieAt('retire');
      await dieAt('remove-images');

      // Started by other means than its activation.
      const waiting = await make('4.13.4', '4.13.4', { schedule: 'manual' });
      await swapTo(waiting, 'ready');
      await run(waiting);
      await dieAt('request-activation');
      await live(isSettled('4.13.4', 'proven'));

      // The same images, made again.
      const again = await make('4.13.5', '4.13.4');
      node.harness.plug(again.path);
      await dieAt('take-over');
      node.harness.unplug();
      await dieAt('forget-release');
      const daemon = await start();
      const done = await daemon.until(isSettled('4.13.5', 'proven'));
      expect(done.bundles.map(({ version, phase }) => `${version} ${phase}`)).toEqual([
        '4.13.2 retired',
        '4.13.3 retired',
        '4.13.4 retired',
        '4.13.5 proven',
      ]);
      const lastOnes = again.contents.images.map(({ reference }) => reference).sort();
      await expect.poll(() => listedReferences(node.double()), { timeout: 60_000 }).toEqual(lastOnes);
      await daemon.stop();
      expect(killedAt).toEqual(pointsOf('life'));
      await expectWhole();
    });
  },
);
