import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { documentsHere } from '../../../../src/bundle/documents/worker-documents.ts';
import { openBundle } from '../../../../src/bundle/read/open-bundle.ts';
import { readUntrusted } from '../../../../src/bundle/verify/judge-bundle.ts';
import { walkImages } from '../../../../src/bundle/verify/walk-images.ts';
import { sampleKey } from '../../../support/bundles/sample-bundle.ts';
import {
  digestOf,
  layerOfTar,
  type SampleImage,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from '../../../support/bundles/sample-image.ts';
import { tarArchive } from '../../../support/bundles/tar-archive.ts';
import { folderForEach } from '../../../support/files/temporary-folder.ts';
import { have } from '../../../support/requirements.ts';
import { runCommand } from '../../../support/run-command.ts';
import { startSourceRegistry } from '../../../support/source-registry.ts';

const skopeo = (args: string[]) => promisify(execFile)('skopeo', args);
const work = folderForEach();
const at = (name: string) => join(work, name);

interface Entry {
  readonly image: SampleImage;
  readonly platform?: { readonly os: string; readonly architecture: string; readonly variant?: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** An index over these entries, as one image. */
function indexOf(entries: readonly Entry[], mediaType = 'application/vnd.oci.image.index.v1+json'): SampleImage {
  const manifests = entries.map(({ image: { top }, ...more }) => ({
    mediaType: top.mediaType,
    digest: top.digest,
    size: top.sizeBytes,
    ...more,
  }));
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, manifests }));
  const index = { mediaType, bytes, digest: digestOf(bytes), sizeBytes: bytes.length };
  const blobs = [index, ...entries.flatMap(({ image }) => image.blobs)];
  const [{ image }] = entries as readonly [Entry];
  return { ...image, index, top: index, blobs: [...new Map(blobs.map((blob) => [blob.digest, blob])).values()] };
}

const make = (seed: string, architecture = 'amd64') => sampleImage({ seed, architecture });
const linux = (architecture: string, variant?: string) => ({
  os: 'linux',
  architecture,
  ...(variant !== undefined && { variant }),
});
const zstd = { 'io.github.containers.compression.zstd': 'true' };
const images = Object.fromEntries(['a', 'b', 'c', 'd'].map((seed) => [seed, make(seed)])) as Record<
  'a' | 'b' | 'c' | 'd',
  SampleImage
>;
const { a, b, c, d } = images;
const arm = { a: make('a', 'arm64'), b: make('b', 'arm64') };

const flags = (arch: string) => ['--name', 'ocp', '--version', '1.0.0', '--arch', arch, '--sequence', '1'];
const NAME = 'quay.example.com/x/it:1';
const create = (source: string, arch = 'amd64', ...more: string[]) =>
  runCommand(['bundle', 'create', ...flags(arch), ...more, '--out', at('out'), '--image', `${NAME}=${source}`], {
    env: { ...process.env, XDG_CACHE_HOME: at('caches') },
  });
const blobsOf = (path: string) => readdirSync(join(path, 'blobs', 'sha256'));

/** Makes a bundle of an index in a layout. */
async function bundleOf(index: SampleImage, arch = 'amd64', ...more: string[]) {
  writeOciLayout(at('layout'), [{ image: index, names: ['it'] }]);
  return create(`oci:${at('layout')}:it`, arch, ...more);
}

describe('a delta over an index', () => {
  const top = sampleLayer({ seed: 'top' });
  const next = sampleImage({ seed: 'next', architecture: 'amd64', layers: [...a.layers, top] });
  /** The layers of the next image that the delta holds itself. */
  async function heldOver(...entries: Entry[]) {
    expect(await bundleOf(indexOf(entries))).toMatchObject({ exitCode: 0 });
    renameSync(at('out'), at('base'));
    const later = ['--version', '1.0.1', '--sequence', '2', '--base', at('base')];
    expect(await bundleOf(next, 'amd64', ...later)).toMatchObject({ exitCode: 0 });
    const held = blobsOf(at('out'));
    return next.layers.map(({ digest }) => held.includes(digest.slice('sha256:'.length)));
  }

  it('leaves out its layers where all nodes take one manifest', async () => {
    const entries = [
      { image: a, platform: linux('amd64') },
      { image: arm.a, platform: linux('arm64') },
    ];
    expect(await heldOver(...entries)).toEqual([false, true]);
  });

  it('holds all layers where nodes take one of several: another one may have another layer', async () => {
    const entries = [
      { image: a, platform: linux('amd64') },
      { image: b, platform: linux('amd64'), annotations: zstd },
    ];
    expect(await heldOver(...entries)).toEqual([true, true]);
  });
});

describe('of an index with several manifests for one architecture', () => {
  it.each<[string, Entry[], string, SampleImage[]]>([
    [
      'the one without a variant travels, although another one is before it',
      [
        { image: a, platform: linux('amd64', 'v2') },
        { image: b, platform: linux('amd64') },
      ],
      'amd64',
      [b, a],
    ],
    [
      'the first of each variant travels',
      [
        { image: a, platform: linux('amd64') },
        { image: b, platform: linux('amd64') },
        { image: c, platform: linux('amd64', 'v3') },
        { image: d, platform: linux('amd64', 'v3') },
      ],
      'amd64',
      [a, c],
    ],
    [
      'both twins travel, where the one for zstd comes last',
      [
        { image: a, platform: linux('amd64') },
        { image: b, platform: linux('amd64'), annotations: zstd },
      ],
      'amd64',
      [a, b],
    ],
    [
      'one twin travels, where the one for zstd comes first: all runtimes take it',
      [
        { image: a, platform: linux('amd64'), annotations: zstd },
        { image: b, platform: linux('amd64') },
      ],
      'amd64',
      [a],
    ],
    [
      'v8 is as none on arm64, and both travel',
      [
        { image: arm.a, platform: linux('arm64') },
        { image: arm.b, platform: linux('arm64', 'v8') },
        { image: c, platform: linux('amd64') },
      ],
      'arm64',
      [arm.a, arm.b],
    ],
    [
      'one without a platform travels where no other one fits',
      [{ image: arm.a, platform: linux('arm64') }, { image: a }, { image: b }],
      'amd64',
      [a],
    ],
    [
      'one without a platform stays where another one fits',
      [{ image: b }, { image: a, platform: linux('amd64') }],
      'amd64',
      [a],
    ],
    [
      'an index in it does not count where runtimes choose another entry',
      [
        { image: a, platform: linux('amd64') },
        { image: indexOf([{ image: b, platform: linux('amd64') }]), platform: linux('amd64') },
        { image: indexOf([{ image: c, platform: linux('amd64') }]) },
      ],
      'amd64',
      [a],
    ],
  ])('%s', async (_name, entries, arch, expected) => {
    const made = await bundleOf(indexOf(entries), arch);
    expect(`${made.exitCode} ${made.stderr}`).toMatch(/^0 /);
    const wanted = expected.flatMap(({ blobs }) => blobs).map(({ digest }) => digest.slice(7));
    expect(blobsOf(at('out'))).toEqual(expect.arrayContaining(wanted));
    expect(blobsOf(at('out'))).toHaveLength(new Set(wanted).size + 2);
    const rehearsed = await runCommand(['bundle', 'rehearse', at('out')], { env: process.env });
    expect(`${rehearsed.exitCode} ${rehearsed.stdout} ${rehearsed.stderr}`).toMatch(/^0 /);
  });

  /** As deep as this, around an image. */
  const nested = (depth: number): SampleImage => {
    const image = depth === 1 ? b : nested(depth - 1);
    return indexOf([{ image, platform: linux('amd64') }]);
  };

  it('takes the image of an index in an index, with a warning, and a node takes it', async () => {
    const index = nested(4);
    const made = await bundleOf(index);
    expect(`${made.exitCode} ${made.stderr}`).toMatch(
      /^0 [\s\S]*CRI-O, Podman and Docker before 26 can't use it, since its index names another index, sha256:.* for linux\/amd64: give its manifest by digest in place of the index/,
    );
    const wanted = index.blobs.map(({ digest }) => digest.slice(7));
    expect(blobsOf(at('out'))).toEqual(expect.arrayContaining(wanted));
    const rehearsed = await runCommand(['bundle', 'rehearse', at('out')], { env: process.env });
    expect(`${rehearsed.exitCode} ${rehearsed.stdout}`).toMatch(
      /^0 [\s\S]*CRI-O, Podman and Docker before 26[\s\S]*loads/,
    );
  });

  it('refuses indexes that are too deep', async () => {
    const { exitCode, stderr } = await bundleOf(nested(5));
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringContaining(`${NAME} has more than 4 indexes below each other for linux/amd64`),
    ]);
  });

  it('refuses too many images in all indexes together', async () => {
    const many = (variants: readonly string[]) =>
      indexOf(variants.map((variant) => ({ image: make(variant), platform: linux('amd64', variant) })));
    const entries = [
      { image: many(['a1', 'a2', 'a3']), platform: linux('amd64') },
      { image: many(['b1', 'b2', 'b3']), platform: linux('amd64', 'v2') },
    ];
    const { exitCode, stderr } = await bundleOf(indexOf(entries));
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('has more than 5 images for linux/amd64')]);
  });

  it('warns of one that has only variants by name', async () => {
    const { exitCode, stderr } = await bundleOf(indexOf([{ image: a, platform: linux('amd64', 'v2') }]));
    expect([exitCode, stderr]).toEqual([
      0,
      expect.stringMatching(
        /CRI-O, Podman, containerd and Docker before 26 can't use it, since its index has linux\/amd64 only as \/v2/,
      ),
    ]);
  });

  it('needs room for the larger one of two twins', async () => {
    const tar = tarArchive([{ path: 'f', bytes: Buffer.alloc(3_000_000, 'stickpin') }]);
    const twin = (pack: (bytes: Buffer) => Buffer, seed: string) =>
      sampleImage({ seed, architecture: 'amd64', layers: [layerOfTar(tar, pack)] });
    const [large, small] = [twin((bytes) => bytes, 'large'), twin((bytes) => zstdCompressSync(bytes), 'small')];
    const need = async (...entries: Entry[]) => {
      rmSync(at('out'), { recursive: true, force: true });
      rmSync(at('layout'), { recursive: true, force: true });
      expect(await bundleOf(indexOf(entries))).toMatchObject({ exitCode: 0 });
      const { stdout } = await runCommand(['bundle', 'rehearse', at('out')], { env: process.env });
      return /for CRI-O .*/.exec(stdout)?.[0];
    };
    const alone = await need({ image: large, platform: linux('amd64') });
    expect(alone).toMatch(/MiB/);
    const twins: Entry[] = [
      { image: small, platform: linux('amd64') },
      { image: large, platform: linux('amd64'), annotations: zstd },
    ];
    expect(await need(...twins)).toBe(alone);
  });

  it('is rejected where contents.json lists the layers of the first one only', async () => {
    const entries = [
      { image: a, platform: linux('amd64') },
      { image: b, platform: linux('amd64'), annotations: zstd },
    ];
    expect(await bundleOf(indexOf(entries))).toMatchObject({ exitCode: 0 });
    const { signal } = new AbortController();
    const reader = openBundle(at('out'));
    const { bundle, index } = await readUntrusted(reader, signal);
    const { payload, contents } = bundle;
    expect(contents.images).toMatchObject([{ layers: [0, 1] }]);
    for (const layers of [[], [0], [0, 1, 0]]) {
      const images = contents.images.map((image) => ({ ...image, layers }));
      const wrong = { payload, contents: { ...contents, images }, index };
      await expect(walkImages(reader, wrong, documentsHere, signal)).rejects.toThrow(/contents\.json disagrees/);
    }
  });

  it('is verified whole, and what lacks of any of them is found', async () => {
    const key = sampleKey();
    writeFileSync(at('key'), key.privatePem);

    const entries = [
      { image: a, platform: linux('amd64') },
      { image: b, platform: linux('amd64'), annotations: zstd },
    ];
    expect(await bundleOf(indexOf(entries), 'amd64', '--key', at('key'))).toMatchObject({ exitCode: 0 });

    mkdirSync(at('keys.d'));
    writeFileSync(join(at('keys.d'), 'factory.pub'), key.publicPem);
    const verify = () => runCommand(['bundle', 'verify', at('out'), '--full', '--keys', at('keys.d')]);
    expect(await verify()).toMatchObject({ exitCode: 0 });
    for (const { digest } of [b.manifest, b.config, ...b.layers]) {
      const file = join(at('out'), 'blobs', 'sha256', digest.slice(7));
      const bytes = readFileSync(file);
      rmSync(file);
      const { exitCode, stdout, stderr } = await verify();
      expect(exitCode).toBe(4);
      expect(stdout + stderr).toContain(digest);
      writeFileSync(file, bytes);
    }
  });
});

describe.runIf(have('skopeo'))('what skopeo chooses of an index', () => {
  it('is in the bundle, from a registry and from an archive', async () => {
    const registry = await startSourceRegistry();
    try {
      const layers = [sampleLayer({ seed: 'shared' })];
      const gzip = sampleImage({ seed: 'gzip', architecture: 'amd64', layers });
      const packed = sampleImage({ seed: 'zstd', architecture: 'amd64', layers });
      const index = indexOf([
        { image: a, platform: linux('amd64', 'v2') },
        { image: gzip, platform: linux('amd64') },
        { image: packed, platform: linux('amd64'), annotations: zstd },
      ]);
      registry.add('x/it', index, ['1']);
      const made = await create(`docker://${registry.host}/x/it:1`, 'amd64', '--tls-verify=false');
      expect(`${made.exitCode} ${made.stderr}`).toMatch(/^0 /);
      const wanted = index.blobs.map(({ digest }) => digest.slice(7));
      expect(blobsOf(at('out'))).toEqual(expect.arrayContaining(wanted));
      const copy = ['--insecure-policy', '--override-os', 'linux', '--override-arch', 'amd64', 'copy', '--quiet'];
      await skopeo([...copy, `oci:${at('out')}:${NAME}`, `dir:${at('chosen')}`]);
      rmSync(at('out'), { recursive: true });
      await skopeo([
        ...['copy', '--quiet', '--all', '--src-tls-verify=false', `docker://${registry.host}/x/it:1`],
        ...[`oci-archive:${at('a.tar')}:${NAME}`],
      ]);
      const from = await runCommand([
        ...['bundle', 'create', ...flags('amd64'), '--out', at('out'), '--archive', at('a.tar')],
      ]);
      expect(`${from.exitCode} ${from.stderr}`).toMatch(/^0 /);
      expect(blobsOf(at('out'))).toEqual(expect.arrayContaining(wanted));
      rmSync(at('out'), { recursive: true });
      const refused = await create(`oci-archive:${at('a.tar')}`);
      expect([refused.exitCode, refused.stderr]).toEqual([
        1,
        expect.stringMatching(/nodes choose from sha256:.*, sha256:/),
      ]);
    } finally {
      await registry.close();
    }
  });
});
