import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { eventually } from '../../../support/eventually.ts';
import { have } from '../../../support/requirements.ts';

const MIB = 1024 * 1024;
let harness: DaemonHarness;

/** Two releases whose images stand on the same two layers; `etcd` changes its top, `api` stays. */
async function releases(): Promise<{ base: SampleBundle; delta: SampleBundle }> {
  const below = ['os', 'tools'].map((seed) => sampleLayer({ seed, sizeBytes: MIB }));
  const image = (seed: string) => sampleImage({ seed, layers: [...below, sampleLayer({ seed, sizeBytes: MIB / 2 })] });
  const of = (name: string, seed: string) => ({
    reference: `quay.example.com/ocp/${name}:${seed}`,
    image: image(`${name}-${seed}`),
  });
  const api = of('api', '1');
  const base = await harness.make({ version: '4.13.6', images: [of('etcd', '1'), api] });
  const images = [of('etcd', '2'), api];
  const delta = await harness.make({ sequence: 2, images, base: base.path });
  return { base, delta };
}

const blobsOf = ({ path }: SampleBundle) => readdirSync(join(path, 'blobs', 'sha256'));
const release = (version: string) => harness.report().bundles.find((bundle) => bundle.version === version);

/** The delta first, then its base, then the delta again. */
async function takeBoth({ base, delta }: { base: SampleBundle; delta: SampleBundle }): Promise<void> {
  await harness.start(delta.path);
  const held = await harness.until((report) => report.bundles[0]?.hold === 'base');
  expect(held.bundles[0]).toMatchObject({ phase: 'held', images: { present: 0, total: 2 } });
  expect(held.status).toMatch(/ocp 4\.13\.7 needs base ocp@4\.13\.6, /);
  await eventually(() => expect(harness.log.kinds()).toContain('bundleHeld'));
  harness.unplug();
  harness.plug(base.path);
  await harness.until(() => release('4.13.6')?.images.present === 2);
  harness.unplug();
  harness.plug(delta.path);
  await harness.until(() => release('4.13.7')?.phase === 'activated');
  expect(release('4.13.7')?.images).toMatchObject({ total: 2, present: 2, pinned: 2 });
}

describe('a delta on a node', () => {
  it('waits for its base, then pulls only the new layers', async () => {
    harness = await createDaemonHarness();
    const both = await releases();
    const [layer] = both.delta.contents.layers.filter(({ inBase }) => inBase !== true);
    expect(both.delta.contents.layers.filter(({ inBase }) => inBase)).toHaveLength(3);
    expect(blobsOf(both.delta)).toContain(layer?.digest.slice(7));
    expect(blobsOf(both.delta)).toHaveLength(1 + 2 * 2 + 1);
    await takeBoth(both);
  });
});

describe.runIf(have('root', 'mmdebstrap'))('a delta in the CRI-O double', () => {
  it('is pulled over the layers of its base that CRI-O has', async () => {
    ({ harness } = await createCrioNode());
    await takeBoth(await releases());
  });
});
