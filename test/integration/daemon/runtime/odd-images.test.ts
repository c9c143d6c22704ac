import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type OddImage, oddImage } from '../../../support/bundles/odd-images.ts';
import { hostArch } from '../../../support/bundles/sample-bundle.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type Containerd, startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { have } from '../../../support/requirements.ts';

const RELEASES = [{ release: '1.7' as const }, { release: '2' as const }];

describe.runIf(have('root', 'mmdebstrap')).each(RELEASES)(
  'an image that containerd $release can not unpack',
  (options) => {
    let containerd: Containerd;
    let harness: DaemonHarness;
    beforeAll(async () => {
      containerd = await startContainerd({ ...options, snapshotter: 'native' });
    });
    afterAll(() => containerd?.stop());
    beforeEach(async () => {
      const { socketPath, certsDirectory } = containerd;
      harness = await createDaemonHarness({
        settings: { runtime: { kind: 'containerd', socket: socketPath, certs_dir: certsDirectory } },
      });
    });
    afterEach(async () => {
      await harness.dispose();
      await containerd.forgetPins();
    });

    it.each<[string, OddImage]>([
      ['which containerd lists', { form: 'Docker', layers: ['octet-stream'] }],
      ['which containerd does not list', { form: 'OCI', layers: ['oci gzip', 'octet-stream'] }],
    ])('is not present, and the release not ready: one %s', async (name, odd) => {
      const reference = `quay.example.com/x/odd:${options.release}`;
      const image = oddImage(`${name} ${options.release}`, odd, hostArch);
      const bundle = await harness.make({ images: [{ reference, image }] });
      await harness.start();
      harness.plug(bundle.path);
      const report = (await harness.until(({ status }) => status.includes('R-28'), 60_000)).bundles[0];
      const { status, advice } = harness.report();
      expect(status).toMatch(/^CALL SUPPORT \(R-28\): .* The runtime can not use an image of the release\./);
      expect(advice.text).toMatch(/quay\.example\.com\/x\/odd@sha256:/i);
      expect(report?.phase).toBe('preloading');
      expect(JSON.stringify(report)).toContain('application/octet-stream');
      const [checked] = await harness.engine.verifyImages('', new AbortController().signal);
      expect(checked?.result).toBe(odd.form === 'Docker' ? 'damaged' : 'absent');
    });
  },
);
