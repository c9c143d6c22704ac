import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { StatusReport } from '../../../../src/domain/report/status-schema.ts';
import type { SampleBundle } from '../../../support/bundles/sample-bundle.ts';
import { type SampleLayer, sampleImage, sampleLayer } from '../../../support/bundles/sample-image.ts';
import { createDaemonHarness, type DaemonHarness } from '../../../support/daemon/daemon-harness.ts';
import { type Containerd, startContainerd } from '../../../support/daemon/runtimes/containerd.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';
import { runCommand } from '../../../support/run-command.ts';
import { type SourceRegistry, startSourceRegistry } from '../../../support/source-registry.ts';

/*
 * An envelope lies in the drop folder; a stick has some layers of its one image, and only the
 * registry that it is called after has the others.
 */
describe.runIf(have('root', 'mmdebstrap'))('one image from a stick and a registry, with containerd', () => {
  let containerd: Containerd;
  let remote: SourceRegistry;
  let configured: ReturnType<Containerd['sendTo']>;
  let harness: DaemonHarness;
  const factory = folderForEach();
  let layers: readonly SampleLayer[];
  let bundle: SampleBundle;

  beforeAll(async () => {
    containerd = await startContainerd();
  });
  afterAll(() => containerd.stop());
  beforeEach(async () => {
    remote = await startSourceRegistry();
    configured = containerd.sendTo(remote.host);
    harness = await createDaemonHarness({
      settings: { runtime: { kind: 'containerd', socket: containerd.socketPath } },
    });
  });
  afterEach(async () => {
    await harness.dispose();
    // Each test begins with a state directory of its own; pins of the one before would look like
    // those of a lost state.
    await containerd.forgetPins();
    await remote.close();
    configured.undo();
  });

  const blobOf = (path: string, digest: string) => join(path, 'blobs/sha256', digest.slice('sha256:'.length));
  /** Layers with a seed of their own, since all tests share one containerd. */
  const setUp = async (seed: string) => {
    layers = ['stick', 'remote', 'both'].map((name) => sampleLayer({ seed: `${seed}-${name}`, sizeBytes: 256 * 1024 }));
    const image = sampleImage({ seed, layers });
    const reference = `quay.example.com/ocp/${seed}:1.0.0`;
    bundle = await harness.make({ images: [{ reference, image }] });
    remote.add(`ocp/${seed}`, image, ['1.0.0']);
    const [onStick, onRemote] = layers;
    remote.drop(onStick?.digest ?? '');
    const envelope = join(factory, 'envelope');
    const made = await runCommand(['bundle', 'envelope', bundle.path, '--out', envelope]);
    if (made.exitCode !== 0) throw new Error(made.stderr);
    rmSync(blobOf(bundle.path, onRemote?.digest ?? ''));
    cpSync(envelope, join(harness.incoming, 'ocp'), { recursive: true });
  };
  const activated = () => harness.activated();

  it('takes each layer from where it is, and says in STATUS and in the report that both are asked', async () => {
    await setUp('mixed');
    harness.plug(bundle.path);
    const seen: StatusReport[] = [];
    await harness.start();
    await harness.until((report) => {
      seen.push(report);
      return report.bundles[0]?.phase === 'activated' && report.operation === 'idle';
    });
    const [onStick, onRemote, onBoth] = layers.map(({ digest }) => digest);
    expect(harness.report().bundles[0]?.images).toEqual({ total: 1, present: 1, pinned: 1 });
    expect(remote.bytesSent(onRemote)).toBe(layers[1]?.sizeBytes);
    expect(remote.bytesSent(onStick)).toBe(0);
    expect(remote.bytesSent(onBoth)).toBe(0);
    expect(harness.statuses.join('\n')).toMatch(
      /Preloading ocp 4\.13\.7 from \S*stick and quay\.example\.com: 0\/1 images/,
    );
    const sources = seen.flatMap(({ bundles }) => bundles[0]?.sources ?? []);
    expect(sources).toContain('quay.example.com');
    expect(sources.some((source) => source.endsWith('stick'))).toBe(true);
    expect(harness.report().bundles[0]).not.toHaveProperty('sources');
  });

  it('continues with the layer of the stick once that is plugged in', async () => {
    await setUp('later');
    await harness.start();
    const failed = await harness.until(({ status }) => /No source has the image/.test(status));
    expect(failed.bundles[0]?.images.present).toBe(0);
    harness.plug(bundle.path);
    await activated();
    expect(remote.bytesSent(layers[0]?.digest)).toBe(0);
  });
});
