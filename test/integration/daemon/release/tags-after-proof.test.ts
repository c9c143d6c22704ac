import { describe, expect, it } from 'vitest';
import { hostArch } from '../../../support/bundles/sample-bundle.ts';
import { sampleImage } from '../../../support/bundles/sample-image.ts';
import type { DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { createContainerdNode } from '../../../support/daemon/runtimes/containerd-node.ts';
import { createCrioNode } from '../../../support/daemon/runtimes/crio-node.ts';
import { have } from '../../../support/requirements.ts';

const LATEST = 'quay.example.com/ocp/swss:latest';
const settings = { streams: { ocp: { tag_after_proof: ['latest'] } } };

/** CRI-O pulls the tag from our registry; containerd is given it by its own API. */
describe.runIf(have('root', 'mmdebstrap'))('streams.NAME.tag_after_proof', () => {
  it.each<[runtime: string, create: () => Promise<{ readonly harness: DaemonHarness }>]>([
    ['the CRI-O double', () => createCrioNode(settings)],
    ['containerd', () => createContainerdNode({ settings })],
  ])(
    'moves with each proof, and goes back with a rollback, on %s',
    async (_runtime, create) => {
      const { harness } = await create();
      const make = (sequence: number) => {
        const version = `4.13.${sequence}`;
        const image = sampleImage({ seed: `swss-${version}`, architecture: hostArch });
        return harness.make({
          version,
          sequence,
          images: [{ reference: `quay.example.com/ocp/swss:${version}`, image }],
        });
      };
      const [first, second] = [await make(1), await make(2)];
      const latest = async () =>
        (await harness.images()).find(({ repoTags }) => repoTags.includes(LATEST))?.repoDigests[0];
      const become = ({ contents }: typeof first) =>
        expect.poll(latest, { timeout: 60_000, interval: 50 }).toBe(contents.images[0]?.reference);
      const activated = (version: string) =>
        harness.until(
          ({ bundles, operation }) =>
            operation === 'idle' && bundles.some((one) => one.version === version && one.phase === 'activated'),
        );

      await harness.start(first.path);
      await activated('4.13.1');
      expect(await latest()).toBeUndefined();
      harness.engine.commands.prove({ bundle: 'ocp@4.13.1' });
      await become(first);
      harness.unplug();
      harness.plug(second.path);
      await activated('4.13.2');
      await become(first);
      harness.engine.commands.prove({ bundle: 'ocp@4.13.2' });
      await become(second);
      harness.engine.commands.rollback({ stream: 'ocp' });
      await become(first);
    },
    180_000,
  );
});
