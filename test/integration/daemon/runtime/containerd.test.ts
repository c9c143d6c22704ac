import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { hexOf } from '../../../../src/domain/model/digest.ts';
import { CriClient } from '../../../../src/runtime/cri/cri-client.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type Containerd, startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';
import { startSourceRegistry } from '../../../support/source-registry.ts';

describe.runIf(have('root', 'mmdebstrap'))('a preload into containerd', () => {
  let containerd: Containerd;
  let harness: DaemonHarness;
  let bundle: SampleBundle;

  const unitListeners = new Set<() => void>();
  beforeAll(async () => {
    containerd = await startContainerd();
  });
  afterAll(() => containerd.stop());
  let pulls: string[];
  beforeEach(async () => {
    pulls = [];
    harness = await createDaemonHarness({
      settings: { runtime: { kind: 'containerd', socket: containerd.socketPath } },
      watchRuntime: (given) => ({
        ...given,
        pull: (reference, signal) => {
          pulls.push(reference);
          return given.pull(reference, signal);
        },
      }),
      units: {
        reloadUnit: async () => undefined,
        onUnitChange: (_unit, listener) => {
          unitListeners.add(listener);
          return () => unitListeners.delete(listener);
        },
      },
    });
    bundle = await harness.make();
  });
  afterEach(async () => {
    await harness.dispose();
    // Each test begins with a state directory of its own; pins of the one before would look like
    // those of a lost state.
    await containerd.forgetPins();
  });

  it('pulls by digest, pins by label, gives the tags, and leaves no hosts.toml behind when it stops', async () => {
    await harness.start();
    await harness.load(bundle.path);
    for (const { reference, tags } of bundle.contents.images) {
      await eventually(async () => {
        const image = (await harness.images()).find((candidate) => candidate.repoDigests.includes(reference));
        expect(image).toMatchObject({ pinned: true, repoTags: tags });
        const listed = await containerd.ctr('images', 'ls', `name==${reference}`);
        expect(listed).toContain('io.cri-containerd.pinned=pinned');
      });
    }
    expect(readdirSync(containerd.certsDirectory)).toEqual(['quay.example.com']);
    await harness.stop();
    expect(readdirSync(containerd.certsDirectory)).toEqual([]);
  });

  it('sets a lost pin label again without a stick (docs/runtime-facts.md, fact 22)', async () => {
    await harness.start();
    await harness.load(bundle.path);
    harness.unplug();
    const reference = bundle.contents.images[0]?.reference ?? '';
    await containerd.ctr('images', 'label', reference, 'io.cri-containerd.pinned=');
    harness.engine.kick();
    await expect
      .poll(async () => (await harness.images()).find((image) => image.repoDigests.includes(reference))?.pinned, {
        timeout: 60_000,
      })
      .toBe(true);
  });

  it('restores a removed tag, pins an image that a second pull unpinned, and observes at once after a restart', async () => {
    await harness.start();
    await harness.load(bundle.path);
    harness.unplug();
    const { reference, tags } = bundle.contents.images[0] ?? { reference: '', tags: [] };
    const isWhole = async () =>
      expect((await harness.images()).find((image) => image.repoDigests.includes(reference))).toMatchObject({
        pinned: true,
        repoTags: tags,
      });
    await isWhole();

    await containerd.ctr('images', 'rm', tags[0] ?? '');
    harness.engine.kick();
    await eventually(isWhole, 15_000);
    expect(readdirSync(containerd.certsDirectory)).toEqual(['quay.example.com']);

    const source = await startSourceRegistry();
    source.publish(...bundle.images);
    const { undo } = containerd.sendTo(source.host);
    const cri = new CriClient({ socketPath: containerd.socketPath });
    try {
      await cri.pullImage(reference, AbortSignal.timeout(30_000));
      harness.engine.kick();
      await eventually(isWhole, 15_000);

      await containerd.ctr('images', 'label', reference, 'io.cri-containerd.pinned=');
      await containerd.restart();
      for (const listener of unitListeners) listener(); // as systemd tells over D-Bus
      await eventually(isWhole, 15_000);
    } finally {
      cri.close();
      undo();
      await source.close();
    }
  });

  it('answers a forced pull by digest and by tag after the stick is gone, says so, and pins again by itself', async () => {
    await harness.start();
    await harness.load(bundle.path);
    harness.unplug();
    const answered = await harness.until(({ conditions }) =>
      conditions.some(({ type, status }) => type === 'PullsAnswered' && status !== 'Unknown'),
    );
    expect(answered.conditions[0]).toMatchObject({ status: 'True', reason: 'PullAnswered' });
    const { reference, tags } = bundle.contents.images[0] ?? { reference: '', tags: [] };
    const labels = () => containerd.ctr('images', 'ls', `name==${reference}`);
    const before = await harness.images();
    expect(await labels()).toContain('io.cri-containerd.pinned=pinned');
    const cri = new CriClient({ socketPath: containerd.socketPath });
    try {
      for (const name of [reference, tags[0] ?? '']) {
        await cri.pullImage(name, AbortSignal.timeout(30_000));
        await eventually(async () => expect(await labels()).toContain('io.cri-containerd.pinned=pinned'), 15_000);
      }
      pulls = [];
      await harness.engine.checkPulls(AbortSignal.timeout(30_000));
      // A kill during a pull of the image itself would leave it unpinned.
      expect(pulls).toEqual([expect.not.stringContaining(reference)]);
      expect(await labels()).toContain('io.cri-containerd.pinned=pinned');
      // None of these pulls has changed an image, a tag or a pin.
      await eventually(async () => expect(await harness.images()).toEqual(before), 15_000);
      // What a container of a pod asks for comes from the release, by its tag.
      expect(harness.engine.report()?.conditions[1]).toMatchObject({
        type: 'PullsFromElsewhere',
        status: 'True',
        message: expect.stringMatching(/ a pull of 1 image, .*pause:\S+ \(every pod, by sandbox_image of containerd\)/),
      });
    } finally {
      cri.close();
    }
  });

  it('pulls the images of an envelope without blobs from their registries, and reads available blobs from the stick', async () => {
    const remote = await startSourceRegistry();
    const configured = containerd.sendTo(remote.host);
    // Content that no other test has left in this containerd.
    bundle = await harness.make({ version: '4.14.0' });
    try {
      remote.publish(...bundle.images);
      const envelope = join(harness.base, 'envelope');
      mkdirSync(envelope);
      for (const file of ['bundle.dsse.json', 'index.json'])
        copyFileSync(join(bundle.path, file), join(envelope, file));
      const contents = hexOf(bundle.payload.contents.digest);
      copyFileSync(join(bundle.path, 'blobs/sha256', contents), join(envelope, 'contents.json'));
      const [etcd, api] = bundle.images;
      for (const layer of api?.image.layers ?? []) rmSync(join(bundle.path, 'blobs/sha256', layer.digest.slice(7)));
      harness.plug(bundle.path);
      renameSync(envelope, join(harness.incoming, 'ocp'));
      await harness.start();
      const done = await harness.activated(120_000);
      expect(done.bundles[0]?.images).toEqual({ total: 2, present: 2, pinned: 2 });
      expect(remote.bytesSent(etcd?.image.layers[0]?.digest)).toBe(0);
      expect(remote.bytesSent(api?.image.layers[0]?.digest)).toBeGreaterThan(0);
      await harness.stop();
      expect(readFileSync(join(containerd.certsDirectory, 'quay.example.com/hosts.toml'), 'utf8')).toBe(
        configured.text,
      );
    } finally {
      configured.undo();
      await remote.close();
    }
  });
});
