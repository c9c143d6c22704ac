import type { Digest } from '../../../src/domain/model/digest.ts';
import { makeSampleBundle } from '../bundles/sample-bundle.ts';
import { sampleImage, sampleLayer } from '../bundles/sample-image.ts';
import type { DaemonHarness } from './daemon-harness.ts';
import type { StickGate } from './stick-gate.ts';

const MIB = 1024 * 1024;

/**
 * Starts the daemon and plugs in a release of one image with a layer of 6 MiB. Resolves when its
 * pull stands at the gate after 2 MiB. @param dir where the bundle is made
 */
export async function startHeldPull(harness: DaemonHarness, gate: StickGate, dir: string): Promise<void> {
  const image = sampleImage({ seed: 'large', layers: [sampleLayer({ seed: 'large', sizeBytes: 6 * MIB })] });
  const bundle = await makeSampleBundle({
    dir,
    keys: [harness.key],
    images: [{ reference: 'quay.example.com/ocp/large:1.0.0', image }],
  });
  gate.hold(image.layers[0]?.digest as Digest, 2 * MIB);
  await harness.start();
  harness.plug(bundle.path);
  await gate.reached();
}
