import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Digest } from '../../../src/domain/model/digest.ts';
import type { LayerStorage } from '../../../src/domain/model/image.ts';
import { diskUse } from '../../../src/domain/preload/space.ts';
import { CriClient } from '../../../src/runtime/cri/cri-client.ts';
import { sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { startSourceAndDouble } from '../../support/crio-double/source-and-double.ts';
import { startContainerd } from '../../support/daemon/runtimes/containerd.ts';
import { have } from '../../support/requirements.ts';
import { execute } from '../../support/rootfs/execute.ts';
import { skopeoArgv, trixieRoot } from '../../support/rootfs/trixie-root.ts';
import { startSourceRegistry } from '../../support/source-registry.ts';

const MIB = 1024 * 1024;
const registryName = 'quay.example.com';
const unstopped = new AbortController().signal;

/** A runtime, and where it keeps images. */
interface Subject {
  readonly storage: string;
  readonly pull: (reference: string) => Promise<unknown>;
}

describe.runIf(have('root', 'mmdebstrap'))('the disk space that a runtime uses, compared with the estimate', () => {
  const stops: (() => Promise<unknown> | undefined)[] = [];
  // Two shared layers, six images with one of their own, two of them behind an index.
  const bases = ['a', 'b'].map((seed) => sampleLayer({ seed, files: 60, sizeBytes: 3 * MIB }));
  const images = Array.from({ length: 6 }, (_none, at) =>
    sampleImage({
      seed: `image${at}`,
      layers: [...bases.slice(at % 2, (at % 2) + 1), sampleLayer({ seed: `own${at}`, files: 20, sizeBytes: 2 * MIB })],
      withIndex: at < 2,
    }),
  );
  const layers = [...new Map(images.flatMap((image) => image.layers).map((layer) => [layer.digest, layer])).values()];

  beforeAll(async () => {
    await trixieRoot();
  });
  afterEach(async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
  });

  const withContainerd = async (): Promise<Subject> => {
    const source = await startSourceRegistry();
    stops.push(source.close);
    const containerd = await startContainerd();
    const cri = new CriClient({ socketPath: containerd.socketPath });
    stops.push(containerd.stop, async () => cri.close());
    for (const [at, image] of images.entries()) source.add(`app/image${at}`, image);
    const file = join(containerd.certsDirectory, registryName, 'hosts.toml');
    await mkdir(dirname(file), { recursive: true });
    const host = `[host."http://${source.host}"]\ncapabilities = ["pull", "resolve"]\n`;
    await writeFile(file, `server = "https://${registryName}"\n${host}`);
    const storage = join(dirname(containerd.socketPath), 'root');
    return { storage, pull: (reference) => cri.pullImage(reference, unstopped) };
  };
  const withDouble = async (): Promise<Subject> => {
    const { source, client, double, stop } = await startSourceAndDouble({
      skopeo: skopeoArgv(),
      storageDriver: 'overlay',
    });
    stops.push(stop);
    for (const [at, image] of images.entries()) source.add(`app/image${at}`, image);
    return { storage: double.dirs.graphRoot, pull: client.pullImage };
  };
  const diskOf = async (path: string) => {
    const first = async (...options: readonly string[]) =>
      Number.parseInt(await execute(['du', '--summarize', ...options, path]), 10);
    await mkdir(path, { recursive: true });
    return { bytes: await first('--block-size=1'), inodes: await first('--inodes') };
  };

  it.each<[string, LayerStorage, () => Promise<Subject>]>([
    ['containerd', 'both', withContainerd],
    ['containers-storage, as CRI-O has it', 'unpacked', withDouble],
  ])('%s', async (_name, storage, start) => {
    const runtime = await start();
    const before = await diskOf(runtime.storage);
    for (const [at, { top }] of images.entries()) await runtime.pull(`${registryName}/app/image${at}@${top.digest}`);
    const after = await diskOf(runtime.storage);
    const used = { bytes: after.bytes - before.bytes, inodes: after.inodes - before.inodes };
    const needs = layers.map((layer) => ({ ...layer, digest: layer.digest as Digest }));
    const estimate = diskUse(needs, images.length, storage);
    for (const what of ['bytes', 'inodes'] as const) {
      expect(estimate[what], what).toBeGreaterThanOrEqual(used[what]);
      expect(estimate[what] / used[what], what).toBeLessThanOrEqual(1.05);
    }
  });
});
