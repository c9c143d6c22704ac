import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';

const MIB = 1024 * 1024;

describe('what STATUS says of the progress', () => {
  let harness: DaemonHarness;
  let factory: string;
  let bundle: SampleBundle;
  /** What the runtime waits for when it has all bytes of an image. */
  let unpack: Promise<void>;
  let finishUnpacking: () => void;

  /** The embedded runtime unpacks nothing; this one takes its time. */
  const slowly = (runtime: RuntimeAdapter): RuntimeAdapter => ({
    ...runtime,
    pull: async (reference, signal) => {
      await runtime.pull(reference, signal);
      await unpack;
    },
  });

  beforeEach(async () => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    unpack = new Promise((resolve) => {
      finishUnpacking = resolve;
    });
    harness = await createDaemonHarness({
      watchRuntime: slowly,
      settings: { preload: { parallel: 2 } },
    });
    bundle = await makeSampleBundle({
      dir: factory,
      keys: [harness.key],
      images: ['a', 'b'].map((name) => ({
        reference: `quay.example.com/ocp/${name}:1.0.0`,
        image: sampleImage({ seed: name, layers: [sampleLayer({ seed: name, sizeBytes: 4 * MIB })] }),
      })),
    });
  });
  afterEach(async () => {
    finishUnpacking();
    await harness.dispose();
    rmSync(factory, { recursive: true, force: true });
  });

  it('shows that the runtime is unpacking once all bytes are transferred, instead of a falling rate', async () => {
    await harness.start();
    harness.plug(bundle.path);
    const report = await harness.until(({ status }) => status.includes('the runtime is unpacking'));
    expect(report.status).toMatch(
      /^Preloading ocp 4\.13\.7 from \S+stick: \d\/2 images, 8 of 8 MiB, the runtime is unpacking$/,
    );
    expect(report.progress).toMatchObject({ isUnpacking: true, doneBytes: report.progress.totalBytes });
    finishUnpacking();
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    const preloading = harness.statuses.filter((status) => status.startsWith('Preloading'));
    expect(preloading.filter((status) => / [KMG]iB\/s| left/.test(status))).toEqual([]);
  });
});
