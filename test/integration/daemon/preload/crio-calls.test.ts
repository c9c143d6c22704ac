import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import { mirrorToml } from '../../../support/crio-double/source-and-double.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type CrioNode, createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { freePort } from '../../../support/free-port.ts';
import { have } from '../../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../../support/source-registry.ts';

describe.runIf(have('root', 'mmdebstrap'))('the calls of a preload and an activation to CRI-O', () => {
  let node: CrioNode;
  let origin: SourceRegistry;
  let harness: DaemonHarness;
  let bundle: SampleBundle;
  let reloads: number;

  beforeEach(async () => {
    reloads = 0;
    origin = await startSourceRegistry();
    const files = { 'etc/containers/registries.conf.d/50-origin.conf': mirrorToml('quay.example.com', origin.host) };
    node = await createCrioNode(
      { registry: { listen: `127.0.0.1:${await freePort()}` } },
      { files },
      {
        keepsMirrors: true,
        // The mirrors are in force when it returns, so that each probe comes after that.
        reload: (double) => {
          reloads += 1;
          return double.reloadAndWait();
        },
      },
    );
    ({ harness } = node);
    bundle = await harness.make();
  });
  afterEach(async () => {
    await node.dispose();
    await origin.close();
  });

  const pulls = () =>
    node
      .double()
      .log()
      .match(/Pulling image/g)?.length ?? 0;
  /** Until the test of pulls that follows an activation, or the start of the daemon, is over. */
  const isTested = (report: StatusReport) =>
    report.operation === 'idle' &&
    report.conditions.some(({ type, status }) => type === 'PullsAnswered' && status === 'True');
  const activated = (version: string) =>
    harness.until(
      (report) =>
        isTested(report) && report.bundles.some((one) => one.version === version && one.phase === 'activated'),
      120_000,
    );

  it('are one reload and fewer than three pulls for each image, without a request to the origin registry', async () => {
    await harness.start(bundle.path);
    await activated('4.13.7');
    expect(reloads).toBe(1);
    // By digest and by tag, and one probe for all mirrors. The pulls by tag are the test of pulls
    // too.
    expect(pulls()).toBe(2 * bundle.images.length + 1);
    expect(origin.requests).toEqual([]);
  });

  it('are two pulls for one image, and the probe only while its mirror is new', async () => {
    const release = (sequence: number) =>
      harness.make({
        version: `5.0.${sequence}`,
        sequence,
        images: [
          { reference: `quay.example.com/one:5.0.${sequence}`, image: sampleImage({ seed: `one-${sequence}` }) },
        ],
      });
    const [first, second] = [await release(1), await release(2)];
    await harness.start(first.path);
    await activated('5.0.1');
    expect(pulls()).toBe(3);
    harness.unplug();
    await harness.stop();
    const before = harness.report();
    await harness.start();
    await harness.until((report) => report !== before && isTested(report));
    // The test at the start has found the mirror in use.
    expect(pulls()).toBe(4);
    harness.plug(second.path);
    await activated('5.0.2');
    expect(pulls()).toBe(6);
    expect(origin.requests).toEqual([]);
  });
});
