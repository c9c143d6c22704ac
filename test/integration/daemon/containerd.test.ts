import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Containerd, startContainerd } from '../../support/containerd.ts';
import { createDaemonHarness, type DaemonHarness } from '../../support/daemon-harness.ts';
import { have } from '../../support/requirements.ts';
import { makeSampleBundle, type SampleBundle } from '../../support/sample-bundle.ts';

describe.runIf(have('root', 'mmdebstrap'))('a preload into containerd', () => {
  let containerd: Containerd;
  let harness: DaemonHarness;
  let factory: string;
  let bundle: SampleBundle;

  beforeAll(async () => {
    containerd = await startContainerd();
  });
  afterAll(() => containerd.stop());
  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    harness = await createDaemonHarness({
      settings: { runtime: { kind: 'containerd', socket: containerd.socketPath } },
    });
    bundle = await makeSampleBundle({ dir: factory, keys: [harness.key] });
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  it('pulls by digest, pins by label, gives the tags, and leaves no hosts.toml behind', async () => {
    await harness.start();
    harness.plug(bundle.path);
    await harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    const images = await harness.images();
    for (const { reference, tags } of bundle.contents.images) {
      const image = images.find((candidate) => candidate.repoDigests.includes(reference));
      expect(image?.pinned).toBe(true);
      expect(image?.repoTags).toEqual(tags);
      expect(await containerd.ctr('images', 'ls', `name==${reference}`)).toContain('io.cri-containerd.pinned=pinned');
    }
    await expect.poll(() => readdirSync(containerd.certsDirectory), { timeout: 10_000 }).toEqual([]);
  });

  it('labels again what lost its label (fact 22), without a stick', async () => {
    await harness.start();
    harness.plug(bundle.path);
    await harness.until((report) => report.bundles[0]?.phase === 'activated' && report.operation === 'idle');
    harness.unplug();
    const reference = bundle.contents.images[0]?.reference ?? '';
    await containerd.ctr('images', 'label', reference, 'io.cri-containerd.pinned=');
    expect((await harness.images()).find((image) => image.repoDigests.includes(reference))?.pinned).toBe(false);
    harness.daemon().engine.kick();
    await expect
      .poll(async () => (await harness.images()).find((image) => image.repoDigests.includes(reference))?.pinned, {
        timeout: 10_000,
      })
      .toBe(true);
  });
});
