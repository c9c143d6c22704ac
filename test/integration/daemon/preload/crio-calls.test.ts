import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeSampleBundle, type SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { crioSettings } from '../../../support/crio-double/crio-settings.ts';
import { mirrorToml } from '../../../support/crio-double/source-and-double.ts';
import { type CrioDouble, startCrioDouble } from '../../../support/crio-double/start-crio-double.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { have } from '../../../support/requirements.ts';
import { skopeoArgv, trixieRoot } from '../../../support/rootfs/trixie-root.ts';
import { type SourceRegistry, startSourceRegistry } from '../../../support/source-registry.ts';

describe.runIf(have('root', 'mmdebstrap'))('the calls of a preload and an activation to CRI-O', () => {
  let factory: string;
  let double: CrioDouble;
  let origin: SourceRegistry;
  let harness: DaemonHarness;
  let bundle: SampleBundle;
  let reloads: number;

  beforeAll(async () => {
    await trixieRoot();
  });
  beforeEach(async () => {
    reloads = 0;
    factory = mkdtempSync(join(tmpdir(), 'stickpin-factory-'));
    origin = await startSourceRegistry();
    const files = { 'etc/containers/registries.conf.d/50-origin.conf': mirrorToml('quay.example.com', origin.host) };
    double = await startCrioDouble({ skopeo: skopeoArgv(), files });
    harness = await createDaemonHarness({
      settings: crioSettings(double),
      units: {
        // The mirrors are in force when it returns, so that each probe comes after that.
        reloadUnit: async () => {
          reloads += 1;
          await double.reloadAndWait();
        },
        onUnitChange: () => () => undefined,
      },
    });
    bundle = await makeSampleBundle({ dir: factory, keys: [harness.key] });
  });
  afterEach(async () => {
    await harness.dispose();
    await double.stop();
    await origin.close();
    rmSync(factory, { recursive: true, force: true });
  });

  it('are one reload and fewer than three pulls for each image, without a request to the origin registry', async () => {
    await harness.start();
    harness.plug(bundle.path);
    await harness.until(({ bundles }) => bundles[0]?.phase === 'activated', 30_000);
    expect(reloads).toBe(1);
    const pulls = double.log().match(/Pulling image/g)?.length ?? 0;
    // By digest and by tag, and one probe for all mirrors.
    expect(pulls).toBe(2 * bundle.images.length + 1);
    expect(origin.requests).toEqual([]);
  });
});
