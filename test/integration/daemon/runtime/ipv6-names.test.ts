import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { have } from '../../../support/requirements.ts';

const REFERENCE = '[fd00::1]:5000/ocp/app:1';

describe('an image whose registry is an IPv6 address', { timeout: 200_000 }, () => {
  let factory: string;
  beforeEach(() => {
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
  });
  afterEach(() => rmSync(factory, { recursive: true, force: true }));

  async function expectLoaded(harness: DaemonHarness): Promise<void> {
    const { path, payload } = await makeSampleBundle({
      dir: factory,
      keys: [harness.key],
      images: [{ reference: REFERENCE, image: sampleImage({ seed: 'app' }) }],
    });
    expect(payload.warnings?.join()).toContain("CRI-O can't pull from [fd00::1]:5000");
    await harness.start();
    harness.plug(path);
    const report = await harness.until(({ bundles }) => bundles[0]?.phase === 'activated', 60_000);
    expect(report.bundles[0]?.images).toEqual({ total: 1, present: 1, pinned: 1 });
  }

  it('is loaded by the embedded runtime', async () => {
    const harness = await createDaemonHarness();
    try {
      await expectLoaded(harness);
    } finally {
      await harness.dispose();
    }
  });

  it.runIf(have('root', 'mmdebstrap'))('is loaded by containerd', async () => {
    const containerd = await startContainerd();
    const harness = await createDaemonHarness({
      settings: { runtime: { kind: 'containerd', socket: containerd.socketPath } },
    });
    try {
      await expectLoaded(harness);
    } finally {
      await harness.dispose();
      await containerd.stop();
    }
  });
});
