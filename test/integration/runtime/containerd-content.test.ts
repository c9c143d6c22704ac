import { readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Digest, hexOf } from '../../../src/domain/model/digest.ts';
import type { ExpectedImage } from '../../../src/domain/model/image.ts';
import { chainIds } from '../../../src/runtime/containerd/check-content.ts';
import { createContainerdRuntime } from '../../../src/runtime/containerd/containerd-runtime.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import { type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { type Containerd, startContainerd } from '../../support/daemon/runtimes/containerd.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const REPOSITORY = 'quay.example.com/coreos/etcd';
const signal = AbortSignal.timeout(600_000);

const RELEASES = [{ release: '1.7' as const }, { release: '2' as const }];

describe.runIf(have('root', 'mmdebstrap')).each(RELEASES)('the content of images in containerd $release', (options) => {
  let containerd: Containerd;
  let registry: SourceRegistry;
  let runtime: RuntimeAdapter;
  let images = 0;

  beforeAll(async () => {
    containerd = await startContainerd({ ...options, snapshotter: 'native' });
  });
  afterAll(() => containerd?.stop());
  beforeEach(async () => {
    registry = await startSourceRegistry();
    runtime = createContainerdRuntime({
      socketPath: containerd.socketPath,
      configFile: containerd.configFile,
      certsDirectory: containerd.certsDirectory,
      units: { reloadUnit: () => Promise.reject(new Error('none')), onUnitChange: () => () => undefined },
      mirror: { authority: registry.host, token: TOKEN },
      foldersFile: join(containerd.certsDirectory, '../mirror-folders'),
    });
    await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
  });
  afterEach(async () => {
    await runtime.applyMirrors([], signal);
    runtime.close();
    await registry.close();
  });

  const fileOf = (digest: string) =>
    join(dirname(containerd.socketPath), 'root/io.containerd.content.v1.content/blobs/sha256', hexOf(digest as Digest));

  /** An image of two layers that was pulled; `layers` are its own unless they are given. */
  const pulled = async (layers?: SampleImage['layers']): Promise<{ image: SampleImage; expected: ExpectedImage }> => {
    images += 1;
    const seed = `content-${options.release}-${images}`;
    const own = [sampleLayer({ seed: `${seed}-a`, sizeBytes: 3_000_000 }), sampleLayer({ seed: `${seed}-b` })];
    const image = sampleImage({ seed, layers: layers ?? own, withIndex: true });
    registry.add(`${TOKEN}/${REPOSITORY}`, image, []);
    const reference = `${REPOSITORY}@${image.top.digest}`;
    await runtime.pull(reference, signal);
    return { image, expected: expectedOf(image, reference) };
  };
  const check = (expected: ExpectedImage) => runtime.openContentCheck().check(expected, () => undefined, signal);

  /** What containerd's garbage collection has taken meanwhile is gone already. */
  const removeSnapshots = async ({ layers }: ExpectedImage) => {
    for (const name of chainIds(layers).toReversed()) {
      await containerd.ctr('snapshots', '--snapshotter', 'native', 'rm', name).catch((error: unknown) => {
        if (!String(error).includes('does not exist')) throw error;
      });
    }
  };
  const heal = async ({ reference }: ExpectedImage, digest: string) => {
    const listed = await runtime.image(reference, signal);
    await runtime.forgetContent([digest as Digest], signal);
    await runtime.removeImage(listed?.imageId ?? '', signal);
    await runtime.pull(reference, signal);
  };

  it('gives the compressed layers of an image from any byte on', async () => {
    const { image } = await pulled();
    const [layer] = image.layers;
    const digest = layer?.digest as Digest;
    const read = async (startByte: number) => {
      const parts: Buffer[] = [];
      for await (const chunk of runtime.storedBlobs?.read(digest, startByte, signal) ?? []) parts.push(chunk);
      return Buffer.concat(parts);
    };
    expect(await runtime.storedBlobs?.sizeOf(digest, signal)).toBe(layer?.sizeBytes);
    expect(await runtime.storedBlobs?.sizeOf(`sha256:${'0'.repeat(64)}` as Digest, signal)).toBeUndefined();
    expect((await read(0)).equals(layer?.bytes ?? Buffer.alloc(0))).toBe(true);
    expect((await read(2_000_000)).equals(layer?.bytes.subarray(2_000_000) ?? Buffer.alloc(0))).toBe(true);
  });

  it('finds an image whole, and reads each of its bytes once', async () => {
    const { image, expected } = await pulled();
    let read = 0;
    const content = runtime.openContentCheck();
    const count = (bytes: number) => {
      read += bytes;
    };
    expect(await content.check(expected, count, signal)).toEqual({ kind: 'whole', by: 'bytes' });
    expect(read).toBe(image.blobs.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
    await content.check(expected, count, signal);
    expect(read).toBe(image.blobs.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0));
  });

  it.each([
    ['truncated', (file: string) => truncateSync(file, 1_000_000)],
    ['truncated', (file: string) => truncateSync(file, 0)],
    ['altered', flipByte],
    ['lost', (file: string) => rmSync(file)],
  ] as const)('finds a layer %s', async (why, harm) => {
    const { image, expected } = await pulled();
    const { digest } = image.layers[0] as SampleImage['layers'][number];
    harm(fileOf(digest));
    expect(await check(expected)).toEqual({ kind: 'broken', faults: [{ kind: 'blob', digest, why }] });
  });

  it('finds a damaged config and a manifest that is gone', async () => {
    const { image, expected } = await pulled();
    flipByte(fileOf(image.config.digest));
    const damaged = { kind: 'blob', digest: image.config.digest, why: 'altered' };
    expect(await check(expected)).toMatchObject({ faults: expect.arrayContaining([damaged]) });
    // containerd collects the config soon after its manifest.
    await containerd.ctr('content', 'rm', image.manifest.digest);
    const gone = { kind: 'document-absent', digest: image.manifest.digest };
    expect(await check(expected)).toMatchObject({ faults: expect.arrayContaining([gone]) });
  });

  it('takes a layer without blob for whole while it is unpacked, and not after', async () => {
    const { image, expected } = await pulled();
    const [first, second] = image.layers as [SampleImage['layers'][number], SampleImage['layers'][number]];
    await containerd.ctr('content', 'rm', first.digest);
    expect(await check(expected)).toEqual({ kind: 'whole', by: 'bytes' });
    await removeSnapshots(expected);
    expect(await check(expected)).toEqual({
      kind: 'broken',
      faults: [{ kind: 'layer-absent', digest: first.digest }],
    });
    expect(second.digest).not.toBe(first.digest);
  });

  it('heals an image by forgetting the damaged blob, removing the image and pulling it again', async () => {
    const { image, expected } = await pulled();
    const layer = image.layers[0] as SampleImage['layers'][number];
    truncateSync(fileOf(layer.digest), 1_000);
    await heal(expected, layer.digest);
    expect(await check(expected)).toEqual({ kind: 'whole', by: 'bytes' });
    expect(statSync(fileOf(layer.digest)).size).toBe(layer.sizeBytes);
  });

  it('heals an image whose damaged layer another image keeps', async () => {
    const { image, expected } = await pulled();
    const other = await pulled(image.layers);
    const { digest } = image.layers[0] as SampleImage['layers'][number];
    truncateSync(fileOf(digest), 1_000);
    await heal(expected, digest);
    expect(await check(expected)).toEqual({ kind: 'whole', by: 'bytes' });
    expect(await check(other.expected)).toEqual({ kind: 'whole', by: 'bytes' });
    expect(() => statSync(fileOf(digest))).toThrow(/ENOENT/); // its files are there, as the other image needs them
  });

  it('finds what an interrupted pull has left of an image that is not listed', async () => {
    const { image, expected } = await pulled();
    const { digest } = image.layers[0] as SampleImage['layers'][number];
    const other = await pulled(image.layers);
    const listed = await runtime.image(expected.reference, signal);
    await runtime.removeImage(listed?.imageId ?? '', signal);
    expect(await check(expected)).toEqual({ kind: 'absent', faults: [] });
    truncateSync(fileOf(digest), 1_000);
    expect(await check(expected)).toEqual({ kind: 'absent', faults: [{ kind: 'blob', digest, why: 'truncated' }] });
    expect(await check(other.expected)).toMatchObject({ kind: 'broken' });
    await removeSnapshots(expected);
    await expect(runtime.pull(expected.reference, signal)).rejects.toThrow();
    await runtime.forgetContent([digest as Digest], signal);
    await runtime.pull(expected.reference, signal);
    expect(await check(expected)).toEqual({ kind: 'whole', by: 'bytes' });
    expect(statSync(fileOf(digest)).size).toBe(image.layers[0]?.sizeBytes);
  });

  it('says that containerd does not answer', async () => {
    const { expected } = await pulled();
    await containerd.end();
    await expect(check(expected)).rejects.toMatchObject({ code: 'runtime/unreachable' });
    await containerd.restart();
  });
});

function expectedOf(image: SampleImage, reference: string): ExpectedImage {
  const documents = [image.index, image.manifest, image.config].flatMap((blob) =>
    blob ? [blob.digest as Digest] : [],
  );
  const layers = image.layers.map(({ digest, sizeBytes, diffId }) => ({
    digest: digest as Digest,
    size: sizeBytes,
    diffId: diffId as Digest,
  }));
  return { reference, documents, layers };
}

function flipByte(file: string): void {
  const bytes = readFileSync(file);
  bytes[20] = (bytes[20] ?? 0) ^ 1;
  writeFileSync(file, bytes);
}
