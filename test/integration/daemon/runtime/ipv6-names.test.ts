import { describe, expect, it } from 'vitest';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createContainerdNode } from '../../../support/daemon/runtimes/containerd-node.ts';
import { have } from '../../../support/requirements.ts';

const REFERENCE = '[fd00::1]:5000/ocp/app:1';

describe('an image whose registry is an IPv6 address', { timeout: 200_000 }, () => {
  async function expectLoaded(harness: DaemonHarness): Promise<void> {
    const { path, payload } = await harness.make({
      images: [{ reference: REFERENCE, image: sampleImage({ seed: 'app' }) }],
    });
    expect(payload.warnings?.join()).toContain("CRI-O can't pull from [fd00::1]:5000");
    await harness.start(path);
    const report = await harness.until(({ bundles }) => bundles[0]?.phase === 'activated', 60_000);
    expect(report.bundles[0]?.images).toEqual({ total: 1, present: 1, pinned: 1 });
  }

  it('is loaded by the embedded runtime', async () => expectLoaded(await createDaemonHarness()));

  it.runIf(have('root', 'mmdebstrap'))('is loaded by containerd', async () =>
    expectLoaded((await createContainerdNode()).harness),
  );
});
