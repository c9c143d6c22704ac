import { rmSync } from 'node:fs';
import { beforeEach, describe, expect, it } from 'vitest';
import type { MediaProvider } from '../../../../src/media/media-provider.ts';
import { AppError } from '../../../../src/platform/app-error.ts';
import { messageIds } from '../../../../src/platform/message-ids.ts';
import { makeSampleBundle, type SampleBundle, sampleKey } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createMemoryMedia, type MemoryMedia, readBundleFiles } from '../../../support/daemon/memory-media.ts';
import { eventually } from '../../../support/eventually.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';

/*
 * The daemon knows nothing of this medium but its provider. No file of the bundle is left on the
 * disk.
 */
describe('a medium that is not a directory', () => {
  let harness: DaemonHarness;
  let media: MemoryMedia;
  const factory = folderForEach();
  /** Why it can't be opened, while that is so. */
  let trouble: AppError | undefined;
  /** How often it was tried while that was so. */
  let tries: number;
  const key = sampleKey('factory-2026');
  const stranger = sampleKey('stranger');

  beforeEach(async () => {
    media = createMemoryMedia();
    trouble = undefined;
    tries = 0;
    harness = await createDaemonHarness({ providers: () => [inTrouble(media)], keys: [key] });
  });

  /** The provider, with a medium that can't be opened while there is {@link trouble}. */
  const inTrouble = (provider: MediaProvider): MediaProvider => ({
    ...provider,
    start: (sink, signal) =>
      provider.start(
        {
          ...sink,
          arrived: (medium) =>
            sink.arrived({
              ...medium,
              open: async (inner) => {
                if (trouble === undefined) return medium.open(inner);
                tries += 1;
                throw trouble;
              },
            }),
        },
        signal,
      ),
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

  it('that can not be opened is reported once, and is tried again', async () => {
    trouble = new AppError({ code: 'media/mount', message: 'wrong fs type', disposition: 'retry' });
    await harness.start();
    await plugIn();
    const failed = () => harness.log.lines.filter(({ fields }) => fields.messageId === messageIds.mediumFailed);
    await harness.until(() => failed().length > 0);
    expect(failed()[0]).toMatchObject({
      message: "node-2 can't be read: wrong fs type",
      fields: { medium: 'node-2', code: 'media/mount' },
    });
    // The second try is 2 s after the first one.
    await eventually(() => expect(tries).toBeGreaterThan(1), 30_000);
    await harness.rounds();
    expect(failed()).toHaveLength(1);
    trouble = undefined;
    await harness.daemon().media.rescan(new AbortController().signal);
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
  });

  it('has its bundle rejected when no trusted key signed it', async () => {
    await harness.start();
    await plugIn(stranger);
    const report = await harness.until(({ rejected }) => rejected.length > 0);
    expect(report.rejected[0]).toMatchObject({ reason: { code: 'bundle/unknown-key' } });
    expect(media.blobsRead).toEqual([]);
  });
});
