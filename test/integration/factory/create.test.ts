import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { limits } from '../../../src/bundle/limits.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import type { CreateOptions } from '../../../src/factory/create-options.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import {
  digestOf,
  type SampleImage,
  type SampleLayer,
  sampleImage,
  sampleLayer,
  seededBytes,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { tarArchive } from '../../support/bundles/tar-archive.ts';
import { flipByte } from '../../support/files/flip-byte.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded } from '../../support/matching.ts';
import { have, type Requirement } from '../../support/requirements.ts';

const { signal } = new AbortController();
const root = folderForEach();
let layout: string;
beforeEach(() => {
  layout = join(root, 'layout');
});

const options = (images: readonly string[], more: Partial<CreateOptions> = {}) =>
  sampleCreateOptions(join(root, 'out', 'bundle'), images, more);

const image = (seed: string, more: Partial<Parameters<typeof sampleImage>[0]> = {}) =>
  sampleImage({ seed, architecture: 'amd64', ...more });
const source = (name: string) => `quay.example.com/${name}:1=oci:${layout}:${name}`;

/** A layer of exactly these bytes around this tar. */
function layerOf(bytes: Buffer, tar: Buffer): SampleLayer {
  const mediaType = 'application/vnd.oci.image.layer.v1.tar+gzip';
  const measured = { diffId: digestOf(tar), uncompressedBytes: tar.length, diskBytes: 0, inodes: 0 };
  return { mediaType, digest: digestOf(bytes), sizeBytes: bytes.length, bytes, ...measured };
}

/** One frame with a window of 128 KiB and a raw block (RFC 8878); content of at most that size. */
function zstdOf(content: Buffer): Buffer {
  const block = Buffer.alloc(3);
  block.writeUIntLE((content.length << 3) | 1, 0, 3);
  return Buffer.concat([Buffer.from('28b52ffd0038', 'hex'), block, content]);
}

/** A skippable frame, as zstd:chunked layers have. */
const SKIPPABLE = Buffer.concat([Buffer.from('502a4d1805000000', 'hex'), Buffer.from('hello')]);

/** What `zstd -19` makes of the tar with `d/` and `d/f`, 300,000 bytes of `stickpin` lines. */
const ZSTD_LEVEL_19 =
  'KLUv/aQAnAQAvAIA1AJkLwAwNzU1NjE3MAAgNQB1c3RhcgBkL2Y2NDQxNzQzNDUAIDBzdGlja3BpbgoPICA1rFYD9PucHzDV4hkFGHxODJj6vCibAxRwUn4lHHiBgQGuT3wIRAAAAAEA/f/MCxBlAAAIAAIAHOB+6b7oAAgK3EO1';

/** Nothing but what was there before; not even hidden. */
function expectNothingLeft(): void {
  expect(readdirSync(root)).toEqual(['layout']);
}

describe('the images of a new bundle', () => {
  it('share their blobs, and an index travels with its own platform only', async () => {
    const shared = sampleLayer({ seed: 'base' });
    const images = ['a', 'b'].map((seed) => image(seed, { layers: [shared, sampleLayer({ seed })], withIndex: true }));
    writeOciLayout(
      layout,
      images.map((one, at) => ({ image: one, names: [at === 0 ? 'a' : 'b'] })),
    );
    const made = await createBundle(options([source('a'), source('b')]), signal);

    expect(made.contents.images.map((one) => one.layers)).toEqual([
      [0, 1],
      [0, 2],
    ]);
    expect(made.contents.images.map((one) => one.digest)).toEqual(images.map((one) => one.index?.digest));
    const blobs = new Set(images.flatMap((one) => one.blobs.map((blob) => blob.digest.slice(7))));
    expect(readdirSync(join(made.path, 'blobs', 'sha256')).sort()).toEqual(
      [...blobs, made.payload.contents.digest.slice(7)].sort(),
    );
    expect(made.payload.totals).toEqual({
      images: 2,
      blobs: blobs.size,
      sizeBytes: [...new Set(images.flatMap((one) => one.blobs))].reduce((sum, blob) => sum + blob.sizeBytes, 0),
      diskBytes: made.contents.layers.reduce((sum, layer) => sum + layer.diskBytes, 0),
      inodes: made.contents.layers.reduce((sum, layer) => sum + layer.inodes, 0),
    });
  });

  it('with several tags are one image, and clashing names are left out with a warning', async () => {
    writeOciLayout(layout, [
      { image: image('proxy'), names: ['x'] },
      { image: image('other'), names: ['y'] },
    ]);
    const made = await createBundle(
      options([
        `quay.example.com/a/proxy:1=oci:${layout}:x`,
        `quay.example.com/a/proxy:latest=oci:${layout}:x`,
        `quay.example.com/b/proxy:1=oci:${layout}:y`,
      ]),
      signal,
    );
    expect(made.contents.images.map(({ tags, component }) => [tags, component])).toEqual([
      [['quay.example.com/a/proxy:1', 'quay.example.com/a/proxy:latest'], undefined],
      [['quay.example.com/b/proxy:1'], undefined],
    ]);
    expect(made.payload.warnings).toEqual([
      expect.stringContaining('latest'),
      expect.stringContaining('quay.example.com/a/proxy@'),
      expect.stringContaining('quay.example.com/b/proxy@'),
    ]);
  });

  it('have the tags that their long tags imply, in the layout too', async () => {
    writeOciLayout(layout, [{ image: image('app'), names: ['x'] }]);
    const made = await createBundle(options([`quay.example.com/app:2.6.2-rev1-b5.1=oci:${layout}:x`]), signal);
    const tags = ['2.6.2-rev1-b5.1', '2.6.2-rev1', '2.6.2'].map((tag) => `quay.example.com/app:${tag}`);
    expect(made.contents.images.map((one) => one.tags)).toEqual([tags]);
    const index = JSON.parse(readFileSync(join(made.path, 'index.json'), 'utf8'));
    const names = index.manifests.map(
      (entry: { annotations: Record<string, string> }) => entry.annotations['org.opencontainers.image.ref.name'],
    );
    expect(names).toEqual(tags);
  });

  it('are measured by what they unpack to, compressed or not', async () => {
    const tar = tarArchive([{ path: 'd/' }, { path: 'd/f', bytes: seededBytes('f', 5000) }]);
    const gzipOfTwo = Buffer.concat([gzipSync(tar.subarray(0, 700)), gzipSync(tar.subarray(700))]);
    for (const [name, bytes] of [
      ['plain', tar],
      ['gzip', gzipSync(tar)],
      ['members', gzipOfTwo],
      ['zstd', zstdOf(tar)],
      ['chunked', Buffer.concat([zstdOf(tar.subarray(0, 700)), SKIPPABLE, zstdOf(tar.subarray(700)), SKIPPABLE])],
    ] as const) {
      rmSync(layout, { recursive: true, force: true });
      writeOciLayout(layout, [{ image: image(name, { layers: [layerOf(bytes, tar)] }), names: [name] }]);
      const made = await createBundle(options([source(name)], { out: join(root, 'out', name) }), signal);
      expect(made.contents.layers, name).toEqual([
        {
          digest: digestOf(bytes),
          sizeBytes: bytes.length,
          diffId: digestOf(tar),
          uncompressedBytes: tar.length,
          diskBytes: 8192,
          inodes: 2,
        },
      ]);
    }
  });

  it('may have layers of zstd that unpack to much more', async () => {
    const bytes = Buffer.from(ZSTD_LEVEL_19, 'base64');
    const tar = tarArchive([{ path: 'd/' }, { path: 'd/f', bytes: Buffer.alloc(300_000, 'stickpin\n') }]);
    writeOciLayout(layout, [{ image: image('z', { layers: [layerOf(bytes, tar)] }), names: ['z'] }]);
    const made = await createBundle(options([source('z')]), signal);
    expect(made.contents.layers).toEqual([
      {
        digest: digestOf(bytes),
        sizeBytes: bytes.length,
        diffId: digestOf(tar),
        uncompressedBytes: tar.length,
        diskBytes: 303_104,
        inodes: 2,
      },
    ]);
  });

  it('may have no layer at all', async () => {
    writeOciLayout(layout, [{ image: image('scratch', { layers: [] }), names: ['scratch'] }]);
    expect((await createBundle(options([source('scratch')]), signal)).payload.totals).toMatchObject({
      images: 1,
      blobs: 2,
      diskBytes: 0,
    });
  });
});

it('is readable by other users as the umask says', async () => {
  writeOciLayout(layout, [{ image: image('a'), names: ['a'] }]);
  const before = process.umask(0o027);
  try {
    await createBundle(options([source('a')]), signal);
    expect(statSync(join(root, 'out', 'bundle')).mode & 0o777).toBe(0o750);
    expect(statSync(join(root, 'out', 'bundle', 'blobs')).mode & 0o777).toBe(0o750);
  } finally {
    process.umask(before);
  }
});

/** The beginning of a tar whose one file has 2^40 bytes, none of which are here. */
const tarOfZeros = (() => {
  const tar = tarArchive([{ path: 'zeros', bytes: Buffer.alloc(512) }]).subarray(0, 512);
  // GNU's base-256.
  tar.fill(0, 124, 136);
  tar[124] = 0x80;
  tar[130] = 1;
  tar.write('        ', 148);
  const sum = tar.reduce((total, byte) => total + byte, 0);
  tar.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return tar;
})();

/** This, and `gib` GiB of zeros behind it, in blocks of one repeated byte (RFC 8878, 3.1.1.2). */
function zstdBomb(head: Buffer, gib: number): Buffer {
  const block = (size: number, type: number, isLast = false) => {
    const bits = Buffer.alloc(3);
    bits.writeUIntLE((size << 3) | (type << 1) | (isLast ? 1 : 0), 0, 3);
    return bits;
  };
  const zeros = Buffer.concat([block(128 * 1024, 1), Buffer.alloc(1)]);
  const blocks = Buffer.alloc(gib * 8192 * zeros.length, zeros);
  return Buffer.concat([Buffer.from('28b52ffd0038', 'hex'), block(head.length, 0), head, blocks, block(0, 0, true)]);
}

describe('a bundle is not made', () => {
  const bad = (name: string, layer: Buffer, tar = layer): [string, SampleImage] => [
    name,
    image('x', { layers: [layerOf(layer, tar)] }),
  ];
  const tar = tarArchive([{ path: 'f', bytes: seededBytes('f', 3000) }]);

  it.each([
    ['of a damaged zstd', ...bad('zstd', Buffer.from('28b52ffd20000700', 'hex')), "zstd can't be unpacked"],
    ['of a zstd that is cut off', ...bad('cut', zstdOf(tar).subarray(0, 2000), tar), "zstd can't be unpacked"],
    ['of a zstd bomb', ...bad('bomb', zstdBomb(tarOfZeros, 2)), 'it unpacks to more than 1032 times its size'],
    ['of a zstd of something else', ...bad('text', zstdOf(Buffer.alloc(2000, 'text'))), 'not a tar archive'],
    ['of a zstd that unpacks to something else', ...bad('diff', zstdOf(tar), Buffer.from('other')), 'config says'],
    ['of a layer that is not a tar', ...bad('text', Buffer.alloc(2000, 'text')), 'not a tar archive'],
    ['of a tar that is cut off', ...bad('cut', gzipSync(tar.subarray(0, 2000)), tar.subarray(0, 2000)), 'cut off'],
    ['of a gzip that is cut off', ...bad('cut', gzipSync(tar).subarray(0, 500), tar), "gzip can't be unpacked"],
    [
      'of a layer that unpacks to something else',
      ...bad('diff', gzipSync(tar), Buffer.from('other')),
      "image's config says",
    ],
    [
      'of an image for another platform',
      'arm',
      image('arm', { architecture: 'arm64' }),
      'is an image for arm64, and the bundle is for amd64',
    ],
    [
      'of an index without the platform',
      'arm',
      image('arm', { architecture: 'arm64', withIndex: true }),
      'only for linux/arm64, linux/s390x',
    ],
    [
      'of an image with too many layers',
      'many',
      image('many', {
        layers: Array.from({ length: limits.layersPerImage + 1 }, (_, at) =>
          sampleLayer({ seed: `${at}`, sizeBytes: 10 }),
        ),
      }),
      `${limits.layersPerImage + 1} layers`,
    ],
    [
      'of an image with a volume at the root folder',
      'root',
      image('root', { volumes: ['/data', '/.'] }),
      'config.Volumes: must not name the root folder',
    ],
    [
      'of an image with a label without measure',
      'label',
      image('label', { labels: { ['n'.repeat(1_025)]: 'x' } }),
      'names of at most 1024 characters',
    ],
  ])('%s', async (_name, _kind, one, message) => {
    writeOciLayout(layout, [{ image: one, names: ['it'] }]);
    await expect(createBundle(options([source('it')]), signal)).rejects.toMatchObject(coded('bundle/source', message));
    expectNothingLeft();
  });

  it('of a layer with trailing garbage, and create does not hang', async () => {
    const bytes = Buffer.concat([gzipSync(tar), seededBytes('garbage', 3 * 1024 * 1024)]);
    writeOciLayout(layout, [{ image: image('x', { layers: [layerOf(bytes, tar)] }), names: ['it'] }]);
    await expect(createBundle(options([source('it')]), signal)).rejects.toMatchObject({ code: 'bundle/source' });
    expectNothingLeft();
  });

  it.each([
    ['a missing layer', (one: SampleImage) => one.layers[0]?.digest, "can't be read"],
    ['a missing config', (one: SampleImage) => one.config.digest, "can't be read"],
    ['a missing manifest', (one: SampleImage) => one.manifest.digest, "can't be read"],
  ])('with %s', async (_name, lost, message) => {
    const one = image('x');
    writeOciLayout(layout, [{ image: one, names: ['it'] }], { omit: [lost(one) ?? ''] });
    const code = 'bundle/source';
    await expect(createBundle(options([source('it')]), signal)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
    expectNothingLeft();
  });

  it.each(['manifest', 'config', 'layer'] as const)('with a damaged %s', async (kind) => {
    const one = image('x');
    writeOciLayout(layout, [{ image: one, names: ['it'] }]);
    const part = kind === 'layer' ? one.layers[0] : one[kind];
    flipByte(join(layout, 'blobs', 'sha256', part?.digest.slice(7) ?? ''), 20);
    await expect(createBundle(options([source('it')]), signal)).rejects.toMatchObject(
      coded('bundle/source', 'is damaged'),
    );
    expectNothingLeft();
  });

  it('when the source names no image or more than one', async () => {
    writeOciLayout(layout, [
      { image: image('a'), names: ['a'] },
      { image: image('b'), names: ['b'] },
    ]);
    for (const selector of ['', ':c', ':@2', `@sha256:${'0'.repeat(64)}`]) {
      await expect(
        createBundle(options([`quay.example.com/x:1=oci:${layout}${selector}`]), signal),
      ).rejects.toMatchObject(coded('bundle/source', 'from: a, b'));
    }
    expectNothingLeft();
  });

  it('when the reference demands another digest', async () => {
    writeOciLayout(layout, [{ image: image('a'), names: ['a'] }]);
    const wrong = `quay.example.com/a:1@sha256:${'0'.repeat(64)}=oci:${layout}:a`;
    await expect(createBundle(options([wrong]), signal)).rejects.toThrow(`holds ${image('a').manifest.digest} instead`);
  });

  it('over an existing file', async () => {
    writeOciLayout(layout, [{ image: image('a'), names: ['a'] }]);
    const out = join(root, 'out', 'bundle');
    mkdirSync(out, { recursive: true });
    await createBundle(options([source('a')]), signal);
    const before = readdirSync(out);
    await expect(createBundle(options([source('a')]), signal)).rejects.toMatchObject({ code: 'bundle/target' });
    expect(readdirSync(out)).toEqual(before);
  });

  it('over a file that appeared meanwhile', async () => {
    writeOciLayout(layout, [{ image: image('a'), names: ['a'] }]);
    const out = join(root, 'out', 'b.stickpin.tar');
    const onProgress = () => writeFileSync(out, 'of somebody else');
    await expect(createBundle(options([source('a')], { out, onProgress }), signal)).rejects.toThrow('exists already');
    expect(readFileSync(out, 'utf8')).toBe('of somebody else');
    expect(readdirSync(join(root, 'out'))).toEqual(['b.stickpin.tar']);
  });

  it('the target of a link, with an error before anything is copied', async () => {
    writeOciLayout(layout, [{ image: image('a'), names: ['a'] }]);
    const onProgress = () => expect.unreachable();
    for (const [name, to] of Object.entries({ empty: 'there', nowhere: 'gone' })) {
      mkdirSync(join(root, 'there'), { recursive: true });
      symlinkSync(join(root, to), join(root, name));
      const out = join(root, name);
      await expect(createBundle(options([source('a')], { out, onProgress }), signal)).rejects.toMatchObject(
        coded('bundle/target', 'is a link'),
      );
    }
    expect(readdirSync(root).sort()).toEqual(['empty', 'layout', 'nowhere', 'there']);
  });

  it('and the directories that were made for it are removed again', async () => {
    writeOciLayout(layout, [{ image: image('a'), names: ['a'] }]);
    const out = join(root, 'out', 'deep', 'bundle');
    await expect(createBundle(options([source('b')], { out }), signal)).rejects.toThrow(
      'no image, or more than one, has that name',
    );
    expect(readdirSync(root)).toEqual(['layout']);
    mkdirSync(join(root, 'out'));
    await expect(createBundle(options([source('b')], { out }), signal)).rejects.toThrow(
      'no image, or more than one, has that name',
    );
    expect(readdirSync(join(root, 'out'))).toEqual([]);
  });

  it.each(['b.tar', 'b.stickpin.tar.gz', 'b.TGZ', 'b.stickpin.tar/', ''])(
    'as an archive with a wrong name: %j',
    async (name) => {
      const out = name === '' ? '' : `${root}/${name}`;
      await expect(createBundle(options([source('a')], { out }), signal)).rejects.toMatchObject(
        coded('bundle/option', 'FILE.stickpin.tar'),
      );
      expect(readdirSync(root)).toEqual([]);
    },
  );

  it('when it is interrupted', async () => {
    const images = ['a', 'b', 'c'].map((seed) => image(seed, { layers: [sampleLayer({ seed, sizeBytes: 100_000 })] }));
    writeOciLayout(
      layout,
      images.map((one, at) => ({ image: one, names: [`${at}`] })),
    );
    const abort = new AbortController();
    const onProgress = () => abort.abort(new Error('interrupted'));
    const requests = ['0', '1', '2'].map((name) => `quay.example.com/i${name}:1=oci:${layout}:${name}`);
    await expect(createBundle(options(requests, { onProgress }), abort.signal)).rejects.toThrow('interrupted');
    expectNothingLeft();
  });
});

const mounting: Requirement = {
  name: 'mounting',
  isMet: () => spawnSync('unshare', ['--mount', 'true']).status === 0,
  remedy: 'run as root with CAP_SYS_ADMIN',
};

describe.runIf(have('root', mounting))('a full filesystem', () => {
  let small: string;
  beforeEach(() => {
    small = join(root, 'small');
    mkdirSync(small);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'tmpfs', small]);
  });
  afterEach(() => {
    execFileSync('umount', [small]);
  });

  it('is refused as a target before anything is copied', async () => {
    writeOciLayout(layout, [{ image: image('a'), names: ['a'] }]);
    await expect(createBundle(options([source('a')], { out: small }), signal)).rejects.toThrow('is a mount point');
    expect(readdirSync(small)).toEqual([]);
  });

  it('is noticed before anything is copied', async () => {
    writeOciLayout(layout, [
      { image: image('a', { layers: [sampleLayer({ seed: 'a', sizeBytes: 1024 * 1024 })] }), names: ['a'] },
    ]);
    await expect(createBundle(options([source('a')], { out: join(small, 'bundle') }), signal)).rejects.toMatchObject({
      code: 'bundle/no-space',
      disposition: 'wait',
      message: expect.stringMatching(/needs 1 MiB, 2\d\d KiB are free/),
    });
    expect(readdirSync(small)).toEqual([]);
  });

  it('that fills up during the copy is left as it was before', async () => {
    const layers = [sampleLayer({ seed: 'a', sizeBytes: 50_000 }), sampleLayer({ seed: 'b', sizeBytes: 100_000 })];
    writeOciLayout(layout, [{ image: image('a', { layers }), names: ['a'] }]);
    const fill = () => writeFileSync(join(small, 'other'), Buffer.alloc(120_000));
    const out = join(small, 'bundle');
    await expect(createBundle(options([source('a')], { out, onProgress: fill }), signal)).rejects.toMatchObject(
      coded('bundle/no-space', /^no space left while writing .*[^\n]$/),
    );
    expect(readdirSync(small)).toEqual(['other']);
  });
});
