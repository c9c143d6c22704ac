import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import type { BundleReader } from '../../../../src/bundle/read/bundle-reader.ts';
import { type Digest, hexOf } from '../../../../src/domain/model/digest.ts';
import type { BundleAccess } from '../../../../src/media/media-provider.ts';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';

/*
 * A medium that gives other bytes than the bundle has, with `retention.blobs = "kept"`: what passes
 * by is hashed, and so known as damaged.
 */
describe('a medium that gives wrong bytes, with retention.blobs = "kept"', () => {
  let harness: DaemonHarness;
  let bundle: SampleBundle;
  let layer: Digest;
  /** Readings of the layer that still give wrong bytes. */
  let lies: number;
  /** Readings of the layer, and pulls that the runtime was asked for, in their order. */
  let acts: string[];

  const lying = ({ reader }: BundleAccess): BundleAccess => {
    const liar: BundleReader = {
      ...reader,
      async *read(digest, startByte, signal, allocate) {
        if (digest === layer) acts.push('read');
        const isLie = digest === layer && lies > 0;
        if (isLie) lies -= 1;
        for await (const chunk of reader.read(digest, startByte, signal, allocate)) {
          if (!isLie) yield chunk;
          else yield Buffer.from(chunk.map((byte) => byte ^ 1));
        }
      },
    };
    return { reader: liar, blobs: liar };
  };

  beforeEach(async () => {
    const settings = { retention: { blobs: 'kept' } } as const;
    acts = [];
    const watchRuntime = (runtime: RuntimeAdapter): RuntimeAdapter => ({
      ...runtime,
      pull: (reference, signal) => {
        acts.push('pull');
        return runtime.pull(reference, signal);
      },
    });
    harness = await createDaemonHarness({ settings, watchBundle: lying, watchRuntime });
    bundle = await harness.make();
    layer = bundle.contents.layers[0]?.digest as Digest;
  });

  const lines = () => harness.log.lines.map(({ message }) => message);
  const keptLayers = () => readdirSync(join(harness.base, 'state/blobs/layers')).sort();
  const allLayers = () => bundle.contents.layers.map(({ digest }) => hexOf(digest)).sort();
  const activated = () => harness.until(({ bundles }) => bundles[0]?.phase === 'activated');

  it('once: the blob is named, the image is pulled again, and the kept layer is right', async () => {
    lies = 1;
    await harness.start(bundle.path);
    await activated();
    await expect.poll(keptLayers, { timeout: 60_000 }).toEqual(allLayers());
    // Nothing is copied before the pulls have begun, so that the transfer to the runtime is what
    // read it first.
    const named = lines().filter((line) => line.includes('with other bytes than it has'));
    expect(named).toHaveLength(1);
    expect(named[0]).toContain(`Blob ${layer} `);
    expect(acts[0]).toBe('pull');
  });

  it('always: the blob and the medium are named, no wrong layer is kept, and another medium completes the preload', async () => {
    lies = Number.POSITIVE_INFINITY;
    await harness.start(bundle.path);
    // While other layers are copied STATUS tells of that.
    const held = await harness.until(
      ({ status, bundles }) => status.includes(' needs an undamaged copy') && bundles[0]?.hold === 'media',
    );
    expect(held.bundles[0]?.reason?.message).toMatch(
      new RegExp(`Blob ${layer.slice(0, 19)}… was damaged on \\S*stick`),
    );
    expect(keptLayers()).not.toContain(hexOf(layer));
    expect(held.bundles[0]?.images.present).toBe(bundle.contents.images.length - 1);
    lies = 0;
    await harness.takeOut();
    harness.plugAgain();
    await activated();
    await expect.poll(keptLayers, { timeout: 60_000 }).toEqual(allLayers());
  });
});
