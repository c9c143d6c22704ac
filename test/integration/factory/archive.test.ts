import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { Contents } from '../../../src/domain/model/bundle.ts';
import { blobMembers, blobOf, entry, json, layout, named } from '../../support/bundles/image-archive.ts';
import {
  digestOf,
  type SampleImage,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { type TarMember, tarArchive } from '../../support/bundles/tar-archive.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const work = folderForEach();

const at = (name: string) => join(work, name);
const fixed = ['--name', 'k3s', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'];
const create = (...more: string[]) => runCommand(['bundle', 'create', ...fixed, ...more, '--json', '--out', at('out')]);

/** Makes a bundle of an archive and returns its images. */
async function imagesOf(...more: string[]) {
  rmSync(at('out'), { recursive: true, force: true });
  const { exitCode, stdout, stderr } = await create(...more);
  expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
  return contentsOf(stdout).images.map(({ digest, tags }) => ({ digest, tags }));
}

/** Of the bundle that `create --json` describes. */
function contentsOf(stdout: string): Contents {
  const { contents } = JSON.parse(stdout).payload;
  return JSON.parse(readFileSync(join(at('out'), 'blobs', 'sha256', contents.digest.slice(7)), 'utf8'));
}

async function expectRefused(bytes: Buffer, why: RegExp, ...more: string[]): Promise<void> {
  writeFileSync(at('bad.tar'), bytes);
  const { exitCode, stderr } = await create('--archive', at('bad.tar'), ...more);
  expect(stderr.replace(/^warning: .*\n/gm, '')).toMatch(why);
  expect(exitCode).toBe(1);
  expect(readdirSync(work).filter((name) => name.includes('out'))).toEqual([]);
}

const web = sampleImage({ seed: 'web', architecture: 'amd64' });
const pause = sampleImage({ seed: 'pause', architecture: 'amd64' });

const SIMPLE_SIGNING = 'application/vnd.dev.cosign.simplesigning.v1+json';

/** A manifest of anything: config and layer are the config of `web`. */
function artifact(config: string, layer: string): SampleImage {
  const bytes = json({
    schemaVersion: 2,
    config: { mediaType: config, digest: web.config.digest, size: web.config.sizeBytes },
    layers: [{ mediaType: layer, digest: web.config.digest, size: web.config.sizeBytes }],
  });
  const { mediaType } = web.manifest;
  return { ...web, top: { mediaType, digest: digestOf(bytes), sizeBytes: bytes.length, bytes } };
}

const zstd = ['zstd', 'unzstd'].map((name) => program(name, 'apt-get install zstd'));

describe.runIf(have('skopeo', ...zstd))('bundle create --archive, of skopeo', () => {
  const save = (...args: string[]) => {
    writeOciLayout(at('layout'), [{ image: web, names: ['web'] }]);
    execFileSync('skopeo', ['--insecure-policy', 'copy', '--quiet', `oci:${at('layout')}:web`, ...args], {
      stdio: 'pipe',
    });
  };

  it.each([
    ['plain', []],
    ['gzip', ['gzip', '-f']],
    ['zstd as RKE2 packs it', ['zstd', '-q', '-T0', '-16', '-f', '--long=25', '--rm']],
  ])('takes a docker-archive whole: %s', async (_name, [packer, ...flags]) => {
    save(`docker-archive:${at('a.tar')}:quay.io/x/web:1`, '--additional-tag', 'docker.io/rancher/web:v1-k3s1');
    const raw = execFileSync('skopeo', ['inspect', '--raw', `docker-archive:${at('a.tar')}`]);
    if (packer !== undefined) execFileSync(packer, [...flags, at('a.tar')]);
    const [file = ''] = readdirSync(work).filter((name) => name.startsWith('a.tar'));
    const digest = digestOf(raw);
    expect(await imagesOf('--archive', at(file))).toEqual([
      { digest, tags: ['quay.io/x/web:1'] },
      { digest, tags: ['docker.io/rancher/web:v1-k3s1'] },
    ]);
    // The same digest as with the transport of that name.
    execFileSync(
      'sh',
      ['-c', 'test ! -e a.tar.gz || gunzip -f a.tar.gz; test ! -e a.tar.zst || unzstd -q --long=25 a.tar.zst'],
      { cwd: work },
    );
    const [same] = await imagesOf('--image', `quay.io/x/web:1=docker-archive:${at('a.tar')}`);
    expect(same?.digest).toBe(digest);
  });

  it('takes an oci-archive whole, with the digest of its source', async () => {
    save(`oci-archive:${at('o.tar')}:quay.io/x/web:1`);
    expect(await imagesOf('--archive', at('o.tar'))).toEqual([{ digest: web.top.digest, tags: ['quay.io/x/web:1'] }]);
  });

  it('makes a bundle that loads', async () => {
    save(`docker-archive:${at('a.tar')}:quay.io/x/web:1`);
    await imagesOf('--archive', at('a.tar'));
    const { exitCode, stdout, stderr } = await runCommand(['bundle', 'rehearse', at('out')], { env: process.env });
    expect(`${exitCode} ${stdout} ${stderr}`).toMatch(/^0 /);
  });
});

describe('bundle create --archive', () => {
  it('takes what Docker from version 25 on and containerd save, several archives, each image once', async () => {
    const twice = [entry(web, named('docker.io/library/web:1')), entry(web, named('docker.io/library/web:1.0'))];
    const byId = entry(web, named(`sha256:${'1'.repeat(64)}`));
    writeFileSync(at('docker.tar'), layout([...twice, byId], ...blobMembers(web)));
    const both = [
      entry(pause, named('registry.k8s.io/pause:3.10')),
      entry(web, { 'org.opencontainers.image.ref.name': 'web:1' }),
    ];
    writeFileSync(at('k3s.tar.zst'), zstdCompressSync(layout(both, ...blobMembers(web, pause))));
    expect(await imagesOf('--archive', at('docker.tar'), '--archive', at('k3s.tar.zst'))).toEqual([
      { digest: web.top.digest, tags: ['docker.io/library/web:1', 'docker.io/library/web:1.0'] },
      { digest: pause.top.digest, tags: ['registry.k8s.io/pause:3.10'] },
    ]);
  });

  it('takes what Docker before version 25 saved: shared layers are links, names lack the registry', async () => {
    const [a, b] = [sampleLayer({ seed: 'a' }), sampleLayer({ seed: 'b' })];
    const image = (seed: string) => sampleImage({ seed, architecture: 'amd64', layers: [a, b] });
    const [one, two] = [image('one'), image('two')];
    const configFile = ({ config }: SampleImage) => ({ path: `${config.digest.slice(7)}.json`, bytes: config.bytes });
    const tarball = tarArchive([
      { path: 'x1/' },
      { path: 'x1/layer.tar', bytes: a.bytes },
      { path: './x2/layer.tar', bytes: b.bytes },
      { path: 'y1/layer.tar', linkTo: '../x1/layer.tar' },
      { path: 'y2/layer.tar', linkTo: 'x2/layer.tar', isHardLink: true },
      configFile(one),
      configFile(two),
      {
        path: 'manifest.json',
        bytes: json([
          {
            Config: configFile(one).path,
            RepoTags: ['rancher/one:v1', 'busybox:1'],
            Layers: ['x1/layer.tar', 'x2/layer.tar'],
          },
          {
            Config: configFile(two).path,
            RepoTags: ['localhost:5000/two:1'],
            Layers: ['y1/layer.tar', 'y2/layer.tar'],
          },
        ]),
      },
    ]);
    writeFileSync(at('images.tar.gz'), gzipSync(tarball));
    const images = await imagesOf('--archive', at('images.tar.gz'));
    expect(images.map(({ tags }) => tags)).toEqual([
      ['docker.io/rancher/one:v1'],
      ['docker.io/library/busybox:1'],
      ['localhost:5000/two:1'],
    ]);
    expect(new Set(images.map(({ digest }) => digest)).size).toBe(2);
  });

  it('takes signatures along, and an index for several platforms', async () => {
    const indexed = sampleImage({ seed: 'indexed', architecture: 'amd64', withIndex: true });
    const signature = sampleImage({ seed: 'signature', architecture: 'amd64' });
    const tag = `${indexed.top.digest.replace(':', '-')}.sig`;
    const manifests = [entry(indexed, named('quay.io/x/i:1')), entry(signature, named(`quay.io/x/i:${tag}`))];
    writeFileSync(at('a.tar'), layout(manifests, ...blobMembers(indexed, signature)));
    expect(await imagesOf('--archive', at('a.tar'))).toEqual([{ digest: indexed.top.digest, tags: ['quay.io/x/i:1'] }]);
    expect(readFileSync(join(at('out'), 'index.json'), 'utf8')).toContain(`quay.io/x/i:${tag}`);
  });

  it('takes the signatures and charts of a hauler store, and leaves out files without a name and referrers', async () => {
    const signature = artifact(web.config.mediaType, SIMPLE_SIGNING);
    const bundle = artifact('application/vnd.oci.empty.v1+json', 'application/vnd.dev.sigstore.bundle.v0.3+json');
    const chart = artifact('application/vnd.cncf.helm.config.v1+json', 'application/vnd.cncf.helm.chart.content.v1');
    const file = artifact('application/vnd.content.hauler.file.local.config.v1+json', 'text/plain');
    const others = [signature, bundle, chart, file];
    const kind = (what: string) => ({ ...named('quay.io/x/web:1'), kind: `dev.hauler/${what}` });
    const manifests = [
      entry(signature, kind('sigs')),
      entry(bundle, kind('referrers/sha256:00')),
      entry(web, kind('image')),
      entry(web, named(`quay.io/x/web:sha256-${'0'.repeat(64)}`)),
      entry(chart, { 'org.opencontainers.image.ref.name': 'hauler/rancher:2.8.0' }),
      entry(file, { 'org.opencontainers.image.ref.name': 'v1' }),
      entry(file),
    ];
    const members = others.map(blobOf);
    writeFileSync(at('haul.tar.zst'), zstdCompressSync(layout(manifests, ...members, ...blobMembers(web))));
    const { exitCode, stdout, stderr } = await create('--archive', at('haul.tar.zst'));
    expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
    expect(JSON.parse(stdout).payload.totals).toMatchObject({ images: 1, blobs: 5 });
    expect(contentsOf(stdout).artifacts).toMatchObject([
      {
        digest: chart.top.digest,
        tags: ['docker.io/hauler/rancher:2.8.0'],
        type: 'application/vnd.cncf.helm.config.v1+json',
      },
    ]);
    expect(readFileSync(at('out/index.json'), 'utf8')).toContain(`quay.io/x/web:sha256-${web.top.digest.slice(7)}.sig`);
    expect(JSON.parse(stdout).resolved).toEqual({
      'quay.io/x/web:1': web.top.digest,
      'docker.io/hauler/rancher:2.8.0': chart.top.digest,
    });
    const notes = stderr.split('\n').filter((line) => line.includes('left out'));
    expect(notes).toEqual([
      `warning: archive ${at('haul.tar.zst')}: quay.io/x/web:sha256-${'0'.repeat(64)} (${web.top.mediaType}), v1 (application/vnd.content.hauler.file.local.config.v1+json), ${file.top.digest} (application/vnd.content.hauler.file.local.config.v1+json), quay.io/x/web:1 (application/vnd.oci.empty.v1+json) are no images, and are left out`,
    ]);
    expect(JSON.parse(stdout).payload.warnings).toHaveLength(1);
  });

  it('takes a folder that cosign saved, with its signature, and leaves it as it is', async () => {
    const signature = artifact(web.config.mediaType, SIMPLE_SIGNING);
    const attestation = artifact(web.config.mediaType, 'application/vnd.dsse.envelope.v1+json');
    const saved = (of: SampleImage, kind: string) =>
      entry(of, { 'org.opencontainers.image.ref.name': 'quay.io/x/web:1', kind: `dev.cosignproject.cosign/${kind}` });
    mkdirSync(at('saved/blobs/sha256'), { recursive: true });
    for (const { path, bytes } of [...blobMembers(web), blobOf(signature), blobOf(attestation)]) {
      writeFileSync(at(`saved/${path}`), bytes);
    }
    const manifests = [saved(web, 'image'), saved(signature, 'sigs'), saved(attestation, 'atts')];
    writeFileSync(at('saved/index.json'), json({ schemaVersion: 2, manifests }));
    const before = readdirSync(at('saved/blobs/sha256'));
    expect(await imagesOf('--archive', at('saved'))).toEqual([{ digest: web.top.digest, tags: ['quay.io/x/web:1'] }]);
    expect(readFileSync(at('out/index.json'), 'utf8')).toContain(`quay.io/x/web:sha256-${web.top.digest.slice(7)}.sig`);
    expect(readdirSync(at('saved/blobs/sha256'))).toEqual(before);
  });

  it('takes a package of zarf, an archive in pieces, and a layout that was packed with its folder', async () => {
    const inFolder = (folder: string, ref: string, key = 'org.opencontainers.image.ref.name') => [
      { path: `${folder}/oci-layout`, bytes: json({ imageLayoutVersion: '1.0.0' }) },
      { path: `${folder}/index.json`, bytes: json({ schemaVersion: 2, manifests: [entry(web, { [key]: ref })] }) },
      ...blobMembers(web).map(({ path, bytes }) => ({ path: `${folder}/${path}`, bytes })),
    ];
    const zarf = { path: 'zarf.yaml', bytes: Buffer.from('kind: ZarfPackageConfig\n') };
    const chart = { path: 'components/web.tar', bytes: Buffer.from('any') };
    const forms: readonly (readonly [string, TarMember[]])[] = [
      ['zarf-package.tar', [zarf, chart, ...inFolder('images', 'quay.io/x/web:1')]],
      ['old.tar', [zarf, ...inFolder('images', 'quay.io/x/web:1', 'org.opencontainers.image.base.name')]],
      ['packed.tar', inFolder('crane', 'quay.io/x/web:1')],
    ];
    for (const [name, members] of forms) {
      writeFileSync(at(name), tarArchive(members));
      expect(await imagesOf('--archive', at(name))).toEqual([{ digest: web.top.digest, tags: ['quay.io/x/web:1'] }]);
    }
    const whole = zstdCompressSync(layout([entry(web, named('quay.io/x/web:1'))], ...blobMembers(web)));
    const third = Math.ceil(whole.length / 3);
    const pieces = [0, 1, 2].map((number) => whole.subarray(number * third, (number + 1) * third));
    for (const [number, piece] of pieces.entries()) {
      writeFileSync(at(`haul_${number}.tar.zst`), piece);
      writeFileSync(at(`z.tar.zst.part00${number + 1}`), piece);
    }
    writeFileSync(at('z.tar.zst.part000'), json({ sha256Sum: '', bytes: whole.length, count: 3 }));
    for (const name of ['haul_0.tar.zst', 'z.tar.zst.part000']) {
      expect(await imagesOf('--archive', at(name))).toEqual([{ digest: web.top.digest, tags: ['quay.io/x/web:1'] }]);
    }
    rmSync(at('out'), { recursive: true });
    for (const [later, first] of [
      ['haul_1.tar.zst', 'haul_0.tar.zst'],
      ['z.tar.zst.part002', 'z.tar.zst.part000'],
    ] as const) {
      const { exitCode, stderr } = await create('--archive', at(later));
      expect([exitCode, stderr]).toEqual([
        1,
        expect.stringContaining(`it is a piece: give only the first, ${at(first)}`),
      ]);
    }
  });

  it('takes the images that --only and --except choose, by their whole names', async () => {
    const names = ['quay.io/x/web:1', 'docker.io/rancher/web:1', 'docker.io/rancher/web:2'];
    writeFileSync(
      at('a.tar'),
      layout(
        names.map((name) => entry(web, named(name))),
        ...blobMembers(web),
      ),
    );
    const tags = async (...more: string[]) =>
      (await imagesOf('--archive', at('a.tar'), ...more)).flatMap((image) => image.tags);
    expect(await tags('--only', '*/rancher/*', '--except', '*:2')).toEqual(['docker.io/rancher/web:1']);
    expect(await tags('--only', 'docker.io/*er/we*:*2')).toEqual(['docker.io/rancher/web:2']);
    expect(await tags('--except', 'docker.io/rancher/*', '--except', 'ghcr.io/*')).toEqual(['quay.io/x/web:1']);
    rmSync(at('out'), { recursive: true });
    const { stderr } = await create('--archive', at('a.tar'), '--only', 'rancher', '--json');
    expect(stderr).toMatch(/--only rancher: no image of the archives fits/);
    const without = await create('--image', 'quay.io/x/web:1', '--only', '*');
    expect(without.stderr).toMatch(/--only chooses among the images of --archive, and none is given/);
  });

  it('names the archive and the image of a bad blob, and no path of its own', async () => {
    const [layer, config] = [web.layers[0]?.digest ?? '', web.config.digest];
    const without = (digest: string) => blobMembers(web).filter(({ path }) => !path.endsWith(digest.slice(7)));
    const other = sampleImage({ seed: 'other', architecture: 'amd64' });
    const swapped = entry(web, named('quay.io/x/web:1'), { size: 5 });
    const file = at('bad.tar');
    for (const [bytes, why] of [
      [layout([entry(web, named('quay.io/x/web:1'))], ...without(layer)), `layer ${layer}`],
      [layout([entry(web, named('quay.io/x/web:1'))], ...without(config)), `blob ${config}`],
      [layout([swapped], ...blobMembers(web)), `blob ${web.top.digest}`],
    ] as const) {
      writeFileSync(file, bytes);
      const { exitCode, stderr } = await create('--archive', file);
      expect(exitCode).toBe(1);
      expect(stderr).toContain(`${why} of quay.io/x/web:1 in archive ${file} `);
      expect(stderr.replaceAll(file, '')).not.toMatch(/\.fetched|\/blobs\/|out\./);
    }
    writeFileSync(file, layout([entry(other, named('quay.io/x/o:1'))], ...blobMembers(other)));
    expect(await imagesOf('--archive', file)).toHaveLength(1);
  });

  it('chooses by platform among images of one name, and refuses images for another one', async () => {
    const arm = sampleImage({ seed: 'arm', architecture: 'arm64' });
    const both = [arm, web].map((image, at) =>
      entry(image, named('quay.io/x/web:1'), { platform: { os: 'linux', architecture: at === 0 ? 'arm64' : 'amd64' } }),
    );
    writeFileSync(at('a.tar'), layout(both, ...blobMembers(arm, web)));
    expect(await imagesOf('--archive', at('a.tar'))).toEqual([{ digest: web.top.digest, tags: ['quay.io/x/web:1'] }]);
    rmSync(at('out'), { recursive: true });
    await expectRefused(
      layout([entry(arm, named('quay.io/x/arm:1'))], ...blobMembers(arm)),
      /^stickpin: .*bad\.tar: quay\.io\/x\/arm:1 is an image for arm64, and the bundle is for amd64/,
    );
  });

  it('is taken instead of the registry for images of manifests', async () => {
    writeFileSync(at('a.tar'), layout([entry(web, named('quay.invalid/x/web:1'))], ...blobMembers(web)));
    writeFileSync(
      at('pod.yaml'),
      'kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: quay.invalid/x/web:1}]}\n',
    );
    const images = await imagesOf('--archive', at('a.tar'), '--images-from', at('pod.yaml'));
    expect(images).toEqual([{ digest: web.top.digest, tags: ['quay.invalid/x/web:1'] }]);
  });

  it('is taken for the short names of a chart, which it maps to docker.io itself', async () => {
    writeFileSync(at('a.tar'), layout([entry(web, named('nginx:1.25'))], ...blobMembers(web)));
    writeFileSync(
      at('pod.yaml'),
      'kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: "nginx:1.25"}]}\n',
    );
    const short = ['--short-names', 'docker.io'];
    const images = await imagesOf('--archive', at('a.tar'), '--images-from', at('pod.yaml'), ...short);
    expect(images).toEqual([{ digest: web.top.digest, tags: ['docker.io/library/nginx:1.25'] }]);
  });

  it('is written in one file, too, and keeps to the limits of volumes', async () => {
    writeFileSync(at('a.tar'), layout([entry(web, named('quay.io/x/web:1'))], ...blobMembers(web)));
    const made = await runCommand([
      ...['bundle', 'create', ...fixed, '--archive', at('a.tar'), '--out', at('out.stickpin.tar')],
    ]);
    expect(made).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('1 image') });
  });
});

describe('a bad archive', () => {
  const good = layout([entry(web, named('quay.io/x/web:1'))], ...blobMembers(web));
  const manifest = (value: unknown, ...members: TarMember[]) =>
    tarArchive([...members, { path: 'manifest.json', bytes: json(value) }]);
  const config = { path: 'c.json', bytes: web.config.bytes };
  const docker = (layer: string, ...members: TarMember[]) =>
    manifest([{ Config: 'c.json', RepoTags: ['x:1'], Layers: [layer] }], config, ...members);

  it.each([
    ['is absent', undefined, /nowhere can't be read/],
    ['is a folder of other things', '.', /it has neither index\.json nor manifest\.json/],
  ])('%s', async (_name, path, why) => {
    const { exitCode, stderr } = await create('--archive', path === undefined ? at('nowhere') : work);
    expect([exitCode, stderr]).toEqual([1, expect.stringMatching(why)]);
  });

  it.each([
    ['is empty', Buffer.alloc(0), /neither index\.json nor manifest\.json/],
    ['is another kind of file', Buffer.alloc(4096, 'text'), /not a tar archive/],
    ['is packed with xz', Buffer.from('fd377a585a000004', 'hex'), /it is packed with xz: unpack it with unxz/],
    ['is packed with bzip2', Buffer.from('BZh91AY&SY'), /it is packed with bzip2/],
    ['is packed with lz4', Buffer.from('04224d1864', 'hex'), /it is packed with lz4/],
    [
      'lists very many names',
      layout(
        Array.from({ length: 20_001 }, (_, at) => entry(web, { 'io.containerd.image.name': `quay.io/x/web:${at}` })),
      ),
      /it lists 20001 names of images, and 20000 are allowed/,
    ],
    ['lists nothing', layout([]), /it lists no image/],
    ['is cut off', good.subarray(0, good.length - 2500), /cut off/],
    ['is gzip that is cut off', gzipSync(good).subarray(0, 900), /gzip can't be unpacked/],
    ['is zstd that is cut off', zstdCompressSync(good).subarray(0, 900), /zstd can't be unpacked/],
    [
      'is zstd with other bytes behind it',
      Buffer.concat([zstdCompressSync(good), Buffer.from('more')]),
      /zstd can't be unpacked/,
    ],
    [
      'has a damaged blob',
      layout([entry(web)], { path: `blobs/sha256/${'0'.repeat(64)}`, bytes: Buffer.from('x') }),
      /blobs\/sha256\/0+ is damaged: its digest is sha256:/,
    ],
    [
      'lacks a blob',
      layout([entry(web, named('quay.io/x/web:1'))]),
      /archive .*bad\.tar: it lacks sha256:[0-9a-f]{64} of quay\.io\/x\/web:1/,
    ],
    [
      'has an image without a name',
      layout([entry(web)], ...blobMembers(web)),
      /number 0 has no full name: .* give it as --image/,
    ],
    [
      'has only a tag',
      layout([entry(web, { 'org.opencontainers.image.ref.name': 'v1' })], ...blobMembers(web)),
      /image "v1" \(sha256:[0-9a-f]{64}\), number 0 has no full name/,
    ],
    [
      'has a strange digest',
      layout([{ ...entry(web), digest: 'sha512:00' }]),
      /"sha512:00" in index\.json is no sha256 digest/,
    ],
    [
      'has a broken list',
      tarArchive([{ path: 'index.json', bytes: Buffer.from('{') }]),
      /index\.json of .* is not JSON/,
    ],
    [
      'has a list that is deep',
      tarArchive([{ path: 'index.json', bytes: Buffer.from('['.repeat(100_000)) }]),
      /is too large to be read/,
    ],
    [
      'has a list that is large',
      tarArchive([{ path: 'index.json', bytes: Buffer.alloc(17 * 1024 * 1024, ' ') }]),
      /its list of images has 17825792 bytes/,
    ],
    [
      'has an image by its id only',
      manifest([{ Config: 'c.json', RepoTags: null, Layers: [] }], config),
      /has no full name: .* save it by its name/,
    ],
    [
      'has a wrong name',
      manifest([{ Config: 'c.json', RepoTags: ['X:1'], Layers: [] }], config),
      /image "X:1", number 0 has no full name/,
    ],
    [
      'was pulled by digest with crane',
      manifest([{ Config: 'c.json', RepoTags: ['quay.io/x/web:i-was-a-digest'], Layers: [] }], config),
      /crane pulled it by its digest, which the archive has lost/,
    ],
    ['lacks a layer', docker('a/layer.tar'), /it has no file "a\/layer\.tar"/],
    ['has a path that leads out', docker('../../etc/passwd'), /leads out of the archive/],
    [
      'has a link that leads out',
      docker('a', { path: 'a', linkTo: '../../../etc/passwd' }),
      /leads out of the archive/,
    ],
    ['has an absolute link', docker('a', { path: 'a', linkTo: '/etc/passwd' }), /leads out of the archive/],
    [
      'has a circle of links',
      docker('a', { path: 'a', linkTo: 'b' }, { path: 'b', linkTo: 'a' }),
      /is a circle of links/,
    ],
    ['has a layer that is no tar', docker('a', { path: 'a', bytes: Buffer.alloc(600, 'x') }), /layer .* is damaged/],
    [
      'has another layer than its config says',
      docker('a', { path: 'a', bytes: sampleLayer({ seed: 'other' }).bytes }),
      /unpacks to sha256:.*, and the image's config says/,
    ],
  ])('%s', async (_name, bytes, why) => {
    await expectRefused(bytes, why);
  });

  it.each([
    ['docker/registry/v2/blobs/sha256/00/x/data', /registry without a tag: one of oc-mirror .*--from-openshift-iso/],
    ['publish/.metadata.json', /it is of oc-mirror 1/],
    ['images.tar', /its images are in images\.tar: take that out/],
    ['zarf.yaml', /a package of zarf without images/],
    ['repositories', /it is of Docker before 1\.10/],
    ['shop/Chart.yaml', /it is a chart: .*--images-from -/],
  ])('is of a tool that is known by %s', async (path, why) => {
    await expectRefused(tarArchive([{ path, bytes: Buffer.from('x') }]), why);
  });

  it('writes nothing outside of its folder, whatever its members are called', async () => {
    const evil = ['/etc/stickpin-evil', '../stickpin-evil', 'blobs/../../stickpin-evil', 'a/./../../../stickpin-evil'];
    const members = [...evil.map((path) => ({ path, bytes: Buffer.from('x') })), { path: '..', linkTo: '/' }];
    writeFileSync(at('a.tar'), layout([entry(web, named('quay.io/x/web:1'))], ...members, ...blobMembers(web)));
    expect(await imagesOf('--archive', at('a.tar'))).toHaveLength(1);
    expect(readdirSync(work).sort()).toEqual(['a.tar', 'out']);
    expect(readdirSync(tmpdir())).not.toContain('stickpin-evil');
  });

  it('that needs more space than there is, is refused before it is unpacked', async () => {
    const bomb = tarArchive([{ path: 'zeros', bytes: Buffer.alloc(512) }]);
    // GNU's base-256: a size of 2^50 bytes.
    bomb.fill(0, 124, 136);
    bomb[124] = 0x80;
    bomb[129] = 4;
    bomb.write('        ', 148);
    const sum = bomb.subarray(0, 512).reduce((total, byte) => total + byte, 0);
    bomb.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
    await expectRefused(
      gzipSync(bomb),
      /needs more space than is free where the bundle is made, at "zeros" with 1024\.0 TiB/,
    );
  });
});
