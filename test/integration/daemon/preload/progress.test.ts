import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { RuntimeAdapter } from '../../../../src/runtime/runtime-adapter.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { ocpImages } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';

const MIB = 1024 * 1024;

describe('what STATUS says of the progress', () => {
  let harness: DaemonHarness;
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
    unpack = new Promise((resolve) => {
      finishUnpacking = resolve;
    });
    harness = await createDaemonHarness({
      watchRuntime: slowly,
      settings: { preload: { parallel: 2 } },
    });
    bundle = await harness.make({
      images: ocpImages(['a', 'b'], { sizeBytes: 4 * MIB }),
    });
  });
  afterEach(() => {
    finishUnpacking();
  });

  it('shows that the runtime is unpacking once all bytes are transferred, instead of a falling rate', async () => {
    await harness.start(bundle.path);
    const report = await harness.until(({ status }) => status.includes('the runtime is unpacking'));
    expect(report.status).toMatch(
      /: Preloading ocp 4\.13\.7 from \S+stick: \d\/2 images, 8 of 8 MiB, the runtime is unpacking\.$/,
    );
    expect(report.progress).toMatchObject({ isUnpacking: true, doneBytes: report.progress.totalBytes });
    finishUnpacking();
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated');
    const preloading = harness.statuses.filter((status) => status.includes(': Preloading'));
    expect(preloading.filter((status) => / [KMG]iB\/s| left/.test(status))).toEqual([]);
  });
});
