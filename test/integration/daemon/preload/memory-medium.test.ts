import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createMemoryMedia, type MemoryMedia, readBundleFiles } from '../../../support/daemon/memory-media.ts';

/*
 * The daemon knows nothing of this medium but its provider. No file of the bundle is left on the
 * disk.
 */
describe('a medium that is not a directory', () => {
  let harness: DaemonHarness;
  let media: MemoryMedia;
  let factory: string;
  const key = sampleKey('factory-2026');
  const stranger = sampleKey('stranger');

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    media = createMemoryMedia();
    harness = await createDaemonHarness({ providers: () => [media], keys: [key] });
  });
  afterEach(async () => {
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  /** Makes a bundle, plugs in its bytes and removes its files. */
  const plugIn = async (signer = key): Promise<SampleBundle> => {
    const bundle = await makeSampleBundle({ dir: factory, keys: [signer] });
    const files = readBundleFiles(bundle.path);
    rmSync(bundle.path, { recursive: true });
    media.plug(files);
    return bundle;
  };

  it('has its bundle found, judged, adopted, loaded and activated', async () => {
    await harness.start();
    const { bundleId, contents } = await plugIn();
    const report = await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    expect(report.bundles[0]).toMatchObject({ bundleId, media: ['node-2'] });
    expect(report.media).toContainEqual(expect.objectContaining({ medium: 'node-2', state: 'read', bundles: 1 }));
    expect(media.blobsRead).toEqual(expect.arrayContaining(contents.layers.map(({ digest }) => digest)));
    expect(await harness.images()).toHaveLength(contents.images.length);
  });

  it('is removed when it does not answer any more, and its blobs are not served', async () => {
    await harness.start();
    const { contents } = await plugIn();
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    const layer = contents.layers[0]?.digest ?? expect.unreachable();
    const { blobs } = harness.daemon().media;
    const { signal } = new AbortController();
    expect(await blobs.sizeOf(layer, signal)).toBeGreaterThan(0);
    media.unplug();
    expect(await blobs.sizeOf(layer, signal)).toBeUndefined();
    expect(
      harness
        .daemon()
        .media.list()
        .map(({ label }) => label),
    ).not.toContain('node-2');
  });

  it('has its bundle rejected when no trusted key signed it', async () => {
    await harness.start();
    await plugIn(stranger);
    const report = await harness.until(({ rejected }) => rejected.length > 0);
    expect(report.rejected[0]).toMatchObject({ reason: { code: 'bundle/unknown-key' } });
    expect(media.blobsRead).toEqual([]);
  });
});
