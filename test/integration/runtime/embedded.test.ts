import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/platform/clock.ts';
import { createEmbeddedRuntime } from '../../../src/runtime/embedded/embedded-runtime.ts';
import type { RuntimeAdapter } from '../../../src/runtime/runtime-adapter.ts';
import { digestOf, type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { eventually } from '../../support/eventually.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded } from '../../support/matching.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const TOKEN = '0123456789abcdef0123456789abcdef';
const REPOSITORY = 'quay.io/coreos/etcd';
const MIB = 1024 * 1024;
const signal = AbortSignal.timeout(300_000);

let registry: SourceRegistry;
const directory = folderForEach();
let runtime: RuntimeAdapter;

function start(): RuntimeAdapter {
  return createEmbeddedRuntime({
    directory,
    mirror: { authority: registry.host, token: TOKEN },
    arch: 'amd64',
    clock: systemClock,
  });
}

beforeEach(async () => {
  registry = await startSourceRegistry();
  runtime = start();
  await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
});
afterEach(async () => {
  runtime.close();
  await registry.close();
  rmSync(directory, { recursive: true });
});

function publish(image: SampleImage, tags: readonly string[] = []): string {
  registry.add(`${TOKEN}/${REPOSITORY}`, image, tags);
  return `${REPOSITORY}@${image.top.digest}`;
}

function image(seed: string, layerBytes = 16 * 1024): SampleImage {
  return sampleImage({ seed, architecture: 'amd64', layers: [sampleLayer({ seed, sizeBytes: layerBytes })] });
}

async function images() {
  const seen = await runtime.observe(signal);
  if (seen.kind !== 'reachable') throw new Error(seen.reason);
  return seen.images;
}

function blobPath(digest: string): string {
  return join(directory, 'blobs/sha256', digest.replace('sha256:', ''));
}

describe('the embedded runtime', () => {
  it('pulls by digest into an OCI image layout', async () => {
    const sample = image('a');
    const reference = publish(sample);
    await runtime.pull(reference, signal);
    expect(await images()).toEqual([
      { imageId: sample.config.digest, repoTags: [], repoDigests: [reference], pinned: false },
    ]);
    for (const { digest, bytes } of sample.blobs) expect(readFileSync(blobPath(digest)).equals(bytes)).toBe(true);
    expect(JSON.parse(readFileSync(join(directory, 'oci-layout'), 'utf8'))).toEqual({ imageLayoutVersion: '1.0.0' });
    expect(JSON.parse(readFileSync(join(directory, 'index.json'), 'utf8'))).toMatchObject({
      schemaVersion: 2,
      manifests: [{ digest: sample.top.digest, annotations: { 'org.opencontainers.image.ref.name': reference } }],
    });
  });

  it('gives a tag to an image that is there without a request, also many at once and after a restart', async () => {
    const reference = publish(image('a'));
    await runtime.pull(reference, signal);
    registry.forget();
    const tags = Array.from({ length: 20 }, (_, count) => `${REPOSITORY}:${count}`);
    expect(await Promise.all(tags.map((tag) => runtime.addTag(tag, reference, signal)))).toEqual(tags.map(() => true));
    expect(await runtime.addTag(`${REPOSITORY}:x`, `${REPOSITORY}@${image('b').top.digest}`, signal)).toBe(false);
    runtime.close();
    runtime = start();
    expect((await images())[0]?.repoTags).toEqual([...tags].sort());
    expect(await runtime.image(tags[7] ?? '', signal)).toMatchObject({ repoDigests: [reference] });
    expect(registry.requests).toEqual([]);
  });

  it('sees that its directory was emptied by others', async () => {
    const reference = publish(image('a'));
    await runtime.pull(reference, signal);
    rmSync(join(directory, 'index.json'));
    expect(await images()).toEqual([]);
    expect(await runtime.addTag(`${REPOSITORY}:1`, reference, signal)).toBe(false);
  });

  it('reports its name, version and free space', async () => {
    const seen = await runtime.observe(signal);
    expect(seen).toMatchObject({
      kind: 'reachable',
      name: 'embedded',
      renderedMirrors: [REPOSITORY],
      renderedPins: [],
    });
    expect(seen.kind === 'reachable' && seen.filesystem?.freeBytes).toBeGreaterThan(0);
  });

  it('pulls the manifest of this platform from an index, and lists both digests', async () => {
    const sample = sampleImage({ seed: 'indexed', architecture: 'amd64', withIndex: true });
    await runtime.pull(publish(sample), signal);
    expect((await images())[0]?.repoDigests).toEqual(
      [`${REPOSITORY}@${sample.top.digest}`, `${REPOSITORY}@${sample.manifest.digest}`].sort(),
    );
  });

  it('changes nothing after an abort', async () => {
    const reference = publish(image('stopped'));
    await runtime.pull(reference, signal);
    const { imageId = '' } = (await runtime.image(reference, signal)) ?? {};
    const stopped = AbortSignal.abort(new Error('stop'));
    await expect(runtime.applyPins([reference], { force: false }, stopped)).rejects.toThrow('stop');
    await expect(runtime.removeTag(reference, stopped)).rejects.toThrow('stop');
    await expect(runtime.removeImage(imageId, stopped)).rejects.toThrow('stop');
    await expect(runtime.image(reference, stopped)).rejects.toThrow('stop');
    expect(await runtime.image(reference, signal)).toMatchObject({ imageId, pinned: false });
  });

  it('refuses an index without this platform', async () => {
    const sample = sampleImage({ seed: 'other', architecture: 'arm64', withIndex: true });
    await expect(runtime.pull(publish(sample), signal)).rejects.toMatchObject(
      coded('runtime/not-found', 'linux/amd64'),
    );
  });

  it('moves a tag from one image to another, and takes it away', async () => {
    const [first, second] = [image('first'), image('second')];
    const byDigest = publish(first, ['v1']);
    await runtime.pull(byDigest, signal);
    await runtime.pull(`${REPOSITORY}:v1`, signal);
    const tagsById = async () =>
      Object.fromEntries((await images()).map(({ imageId, repoTags }) => [imageId, repoTags]));
    expect(await tagsById()).toEqual({ [first.config.digest]: [`${REPOSITORY}:v1`] });
    publish(second, ['v1']);
    await runtime.pull(`${REPOSITORY}:v1`, signal);
    expect(await tagsById()).toEqual({ [first.config.digest]: [], [second.config.digest]: [`${REPOSITORY}:v1`] });
    expect((await runtime.image(`${REPOSITORY}:v1`, signal))?.imageId).toBe(second.config.digest);
    await runtime.removeTag(`${REPOSITORY}:v1`, signal);
    expect(await runtime.image(`${REPOSITORY}:v1`, signal)).toBeUndefined();
    expect(await tagsById()).toEqual({ [first.config.digest]: [] });
  });

  it('keeps pins over a restart, by any name of the image', async () => {
    const reference = publish(image('a'));
    await runtime.applyPins([reference], { force: false }, signal);
    await runtime.pull(reference, signal);
    runtime.close();
    runtime = start();
    expect((await images()).map(({ pinned }) => pinned)).toEqual([true]);
    await runtime.applyPins([], { force: false }, signal);
    expect((await images()).map(({ pinned }) => pinned)).toEqual([false]);
  });

  it('fetches nothing twice', async () => {
    const shared = sampleLayer({ seed: 'shared', sizeBytes: MIB });
    const samples = ['a', 'b', 'c'].map((seed) =>
      sampleImage({ seed, architecture: 'amd64', layers: [shared, sampleLayer({ seed })] }),
    );
    await Promise.all(samples.map((sample) => runtime.pull(publish(sample), signal)));
    expect(await images()).toHaveLength(3);
    expect(registry.getCount(shared.digest)).toBe(1);
    registry.forget();
    await runtime.pull(`${REPOSITORY}@${samples[0]?.top.digest}`, signal);
    expect(registry.requests.filter(({ kind }) => kind === 'blob')).toEqual([]);
  });

  it('fetches no more layers at once than allowed', async () => {
    const layers = Array.from({ length: 6 }, (_, at) => sampleLayer({ seed: `l${at}`, sizeBytes: 64 * 1024 }));
    for (const { digest } of layers) registry.breakDown(digest, { kind: 'stall', atByte: 1000 });
    const pull = runtime.pull(publish(sampleImage({ seed: 'many', architecture: 'amd64', layers })), signal);
    const open = () => layers.filter(({ digest }) => registry.getCount(digest) > 0);
    await eventually(() => expect(open()).toHaveLength(3));
    registry.mend(layers[0]?.digest ?? '');
    await eventually(() => expect(open()).toHaveLength(4));
    for (const { digest } of layers) registry.mend(digest);
    await pull;
  });

  it('continues a broken transfer from the exact byte (as docs/runtime-facts.md, fact 15)', async () => {
    const sample = image('broken', MIB);
    const layer = sample.layers[0] ?? sample.config;
    registry.breakDown(layer.digest, { kind: 'break', atByte: 300_000 });
    await runtime.pull(publish(sample), signal);
    const ranges = registry.requests.filter(({ digest }) => digest === layer.digest).map(({ range }) => range);
    expect(ranges).toEqual([undefined, expect.stringMatching(/^bytes=[1-9][0-9]*-$/)]);
    const resumedAt = Number(/\d+/.exec(ranges[1] ?? '')?.[0]);
    expect(resumedAt).toBeLessThanOrEqual(300_000);
    expect(registry.bytesSent(layer.digest)).toBe(300_000 + layer.sizeBytes - resumedAt);
  });

  it('continues an aborted pull after a restart', async () => {
    const sample = image('aborted', MIB);
    const layer = sample.layers[0] ?? sample.config;
    const reference = publish(sample);
    registry.breakDown(layer.digest, { kind: 'stall', atByte: 400_000 });
    const stop = new AbortController();
    const pull = runtime.pull(reference, stop.signal);
    const partial = join(directory, 'partial', layer.digest.replace('sha256:', ''));
    await eventually(() => expect(existsSync(partial) && statSync(partial).size).toBe(400_000));
    stop.abort();
    await expect(pull).rejects.toMatchObject({ code: 'runtime/cancelled' });
    expect(await images()).toEqual([]);
    registry.mend(layer.digest);
    registry.forget();
    runtime.close();
    runtime = start();
    await runtime.applyMirrors([{ repository: REPOSITORY }], signal);
    await runtime.pull(reference, signal);
    expect(registry.requests.find(({ digest }) => digest === layer.digest)?.range).toBe('bytes=400000-');
    expect(readdirSync(join(directory, 'partial'))).toEqual([]);
  });

  it('lets another pull finish a shared layer whose first puller was cancelled', async () => {
    const shared = sampleLayer({ seed: 'shared', sizeBytes: MIB });
    const [first, second] = ['first', 'second'].map((seed) =>
      publish(sampleImage({ seed, architecture: 'amd64', layers: [shared] })),
    );
    registry.breakDown(shared.digest, { kind: 'stall', atByte: 100_000 });
    const stop = new AbortController();
    const cancelled = expect(runtime.pull(first ?? '', stop.signal)).rejects.toMatchObject({
      code: 'runtime/cancelled',
    });
    await eventually(() => expect(registry.bytesSent(shared.digest)).toBe(100_000));
    const other = runtime.pull(second ?? '', signal);
    await eventually(() => expect(registry.requests.filter(({ kind }) => kind === 'manifest')).toHaveLength(2));
    stop.abort();
    await cancelled;
    await eventually(() => expect(registry.getCount(shared.digest)).toBe(2));
    registry.mend(shared.digest);
    await other;
    const [, again] = registry.requests.filter(({ digest }) => digest === shared.digest);
    expect(again?.range).toBe('bytes=100000-');
    expect((await images()).flatMap(({ repoDigests }) => repoDigests)).toContain(second);
  });

  it('refuses a wrong byte, and pulls the blob again the next time (as docs/runtime-facts.md, fact 16)', async () => {
    const sample = image('corrupt', MIB);
    const layer = sample.layers[0] ?? sample.config;
    const reference = publish(sample);
    registry.breakDown(layer.digest, { kind: 'corrupt', atByte: 5_000 });
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/digest-mismatch' });
    expect(existsSync(blobPath(layer.digest))).toBe(false);
    expect(await images()).toEqual([]);
    registry.mend(layer.digest);
    await runtime.pull(reference, signal);
    expect(digestOf(readFileSync(blobPath(layer.digest)))).toBe(layer.digest);
  });

  it('refuses a blob with more bytes than its manifest says, and removes them', async () => {
    const sample = image('long');
    const [layer = sample.config] = sample.layers;
    const bytes = Buffer.concat([layer.bytes, Buffer.from('more')]);
    const longer = { ...layer, bytes, sizeBytes: bytes.length };
    const blobs = sample.blobs.map((blob) => (blob.digest === layer.digest ? longer : blob));
    await expect(runtime.pull(publish({ ...sample, blobs }), signal)).rejects.toMatchObject({
      code: 'runtime/digest-mismatch',
    });
    expect(readdirSync(join(directory, 'partial'))).toEqual([]);
  });

  it('continues after a change that could not be written', async () => {
    const reference = publish(image('a'));
    mkdirSync(join(directory, 'index.json'), { recursive: true });
    await expect(runtime.pull(reference, signal)).rejects.toThrow();
    rmSync(join(directory, 'index.json'), { recursive: true });
    await runtime.pull(reference, signal);
    expect(await images()).toHaveLength(1);
  });

  it('refuses a manifest with another digest', async () => {
    const sample = image('manifest');
    const reference = publish({ ...sample, blobs: [{ ...sample.manifest, bytes: Buffer.from('{}'), sizeBytes: 2 }] });
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/digest-mismatch' });
  });

  it('names the blobs that the registry lacks', async () => {
    const sample = image('missing');
    const reference = publish(sample);
    registry.drop(sample.config.digest);
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject(
      coded('runtime/not-found', sample.config.digest),
    );
  });

  it('fails a transfer without progress, and uses no other registry', async () => {
    const sample = image('refused');
    const reference = publish(sample);
    registry.breakDown(sample.config.digest, { kind: 'status', status: 503 });
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/pull-failed' });
    await runtime.applyMirrors([], signal);
    registry.forget();
    await expect(runtime.pull(reference, signal)).rejects.toMatchObject({ code: 'runtime/pull-failed' });
    expect(registry.requests).toEqual([]);
  });

  it('says which file is damaged', async () => {
    writeFileSync(join(directory, 'index.json'), '{');
    expect(await runtime.observe(signal)).toEqual({
      kind: 'unreachable',
      reason: expect.stringContaining(join(directory, 'index.json')),
    });
  });
});
