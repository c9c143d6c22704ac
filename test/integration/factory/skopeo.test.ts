import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type CreatedBundle, createBundle } from '../../../src/factory/create-bundle.ts';
import { runSkopeo } from '../../../src/factory/images/skopeo.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import { digestOf, type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded } from '../../support/matching.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const { signal } = new AbortController();
const root = folderForEach();
let registry: SourceRegistry;
/** What lies in the folder beside skopeo's own configuration and, without root, its cache. */
const leftBehind = () => readdirSync(root).filter((name) => name !== '.config' && name !== '.local');
beforeEach(async () => {
  registry = await startSourceRegistry();
  const configuration = join(root, '.config', 'containers');
  mkdirSync(configuration, { recursive: true });
  const insecure = `[[registry]]\nlocation = "${registry.host}"\ninsecure = true\n`;
  writeFileSync(join(configuration, 'registries.conf'), insecure);
  vi.stubEnv('HOME', root);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await registry.close();
});

function create(images: readonly string[], abortSignal = signal): Promise<CreatedBundle> {
  return createBundle(sampleCreateOptions(join(root, 'bundle'), images), abortSignal);
}

/** The same image as Docker's schema 2 describes it. */
function inDockerForm(image: SampleImage): SampleImage {
  const blob = (mediaType: string, bytes: Buffer) => ({
    mediaType,
    bytes,
    digest: digestOf(bytes),
    sizeBytes: bytes.length,
  });
  const parsed = JSON.parse(image.manifest.bytes.toString());
  const docker = 'application/vnd.docker';
  const manifest = blob(
    `${docker}.distribution.manifest.v2+json`,
    Buffer.from(
      JSON.stringify({
        ...parsed,
        mediaType: `${docker}.distribution.manifest.v2+json`,
        config: { ...parsed.config, mediaType: `${docker}.container.image.v1+json` },
        layers: parsed.layers.map((layer: object) => ({ ...layer, mediaType: `${docker}.image.rootfs.diff.tar.gzip` })),
      }),
    ),
  );
  return { ...image, manifest, top: manifest, blobs: [manifest, image.config, ...image.layers] };
}

describe.runIf(have('skopeo'))('images from a registry', () => {
  it('keep their digests: of an index, of a manifest, of a Docker manifest', async () => {
    const shared = sampleLayer({ seed: 'base' });
    const make = (seed: string, withIndex = false) =>
      sampleImage({ seed, architecture: 'amd64', withIndex, layers: [shared, sampleLayer({ seed })] });
    const images = { index: make('index', true), manifest: make('manifest'), docker: inDockerForm(make('docker')) };
    for (const [name, image] of Object.entries(images)) registry.add(`edge/${name}`, image, ['1']);

    const made = await create([
      `${registry.host}/edge/index:1`,
      `${registry.host}/edge/manifest@${images.manifest.top.digest}`,
      `quay.example.com/edge/docker:1=docker://${registry.host}/edge/docker:1`,
    ]);
    expect(made.contents.images.map(({ reference, tags }) => [reference, tags])).toEqual([
      [`${registry.host}/edge/index@${images.index.top.digest}`, [`${registry.host}/edge/index:1`]],
      [`${registry.host}/edge/manifest@${images.manifest.top.digest}`, []],
      [`quay.example.com/edge/docker@${images.docker.top.digest}`, ['quay.example.com/edge/docker:1']],
    ]);
    const blobs = Object.values(images).flatMap((image) => image.blobs.map((blob) => blob.digest.slice(7)));
    expect(readdirSync(join(made.path, 'blobs', 'sha256')).sort()).toEqual(
      [...new Set([...blobs, made.payload.contents.digest.slice(7)])].sort(),
    );
    expect(readdirSync(made.path).sort()).toEqual(['blobs', 'bundle.dsse.json', 'index.json', 'oci-layout']);
  });

  it('that do not exist are named with the error of skopeo, and nothing is left behind', async () => {
    await expect(create([`${registry.host}/edge/none:1`])).rejects.toMatchObject(
      coded('bundle/skopeo', /edge\/none:1 .*can't be fetched: .*[^\n]$/),
    );
    expect(leftBehind()).toEqual([]);
  });

  it('stop when they are interrupted', async () => {
    const image = sampleImage({ seed: 'slow', architecture: 'amd64' });
    registry.add('edge/slow', image, ['1']);
    registry.breakDown(image.layers[0]?.digest ?? '', { kind: 'stall', atByte: 100 });
    const abort = new AbortController();
    const creating = create([`${registry.host}/edge/slow:1`], abort.signal);
    const ended = expect(creating).rejects.toThrow('interrupted');
    await expect.poll(() => registry.bytesSent(image.layers[0]?.digest), { timeout: 60_000 }).toBe(100);
    abort.abort(new Error('interrupted'));
    await ended;
    expect(leftBehind()).toEqual([]);
  });
});

describe.runIf(have('skopeo'))('a bundle', () => {
  it('is an OCI layout that skopeo reads by the names of its images', async () => {
    const image = sampleImage({ seed: 'etcd', architecture: 'amd64', withIndex: true });
    registry.add('coreos/etcd', image, ['3.5.9']);
    const { path } = await create([`quay.example.com/coreos/etcd:3.5.9=docker://${registry.host}/coreos/etcd:3.5.9`]);
    const raw = await runSkopeo(['inspect', '--raw', `oci:${path}:quay.example.com/coreos/etcd:3.5.9`], 'it', signal);
    expect(digestOf(raw)).toBe(image.top.digest);
    const told = await runSkopeo(
      ['--override-arch', 'amd64', 'inspect', `oci:${path}:quay.example.com/coreos/etcd:3.5.9`],
      'it',
      signal,
    );
    expect(JSON.parse(told.toString())).toMatchObject({
      Architecture: 'amd64',
      Layers: image.layers.map((layer) => layer.digest),
    });
    const out = join(root, 'copied');
    const args = [
      ...['--override-arch', 'amd64', 'copy'],
      ...['--quiet', `oci:${path}:quay.example.com/coreos/etcd:3.5.9`, `dir:${out}`],
    ];
    await runSkopeo(args, 'it', signal);
    expect(digestOf(readFileSync(join(out, 'manifest.json')))).toBe(image.manifest.digest);
  });
});

describe('without skopeo', () => {
  it('the error says how to create a bundle without it', async () => {
    vi.stubEnv('PATH', '/nowhere');
    await expect(runSkopeo(['--version'], 'quay.example.com/a:1', signal)).rejects.toMatchObject(
      coded('bundle/skopeo', 'give the image as oci:DIR:TAG'),
    );
  });
});
