import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import type { Contents } from '../../../src/domain/model/bundle.ts';
import { blobMembers, entry, json, layout, named } from '../../support/bundles/image-archive.ts';
import { writeRegistryStorage } from '../../support/bundles/registry-storage.ts';
import {
  digestOf,
  type SampleImage,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { sampleReferrer } from '../../support/bundles/sample-signature.ts';
import { tarArchive } from '../../support/bundles/tar-archive.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const work = folderForEach();
const at = (name: string) => join(work, name);
const [web, pause, side] = ['web', 'pause', 'side'].map((seed) => sampleImage({ seed, architecture: 'amd64' })) as [
  SampleImage,
  SampleImage,
  SampleImage,
];

const run = (...more: string[]) =>
  runCommand([
    ...['bundle', 'create', '--name', 'k3s', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1'],
    ...[...more, '--out', at('out')],
  ]);
const create = (...more: string[]) => run(...more, '--json');

/** Makes a bundle; its images by their tags, and the warnings. */
async function made(...more: string[]) {
  rmSync(at('out'), { recursive: true, force: true });
  const { exitCode, stdout, stderr } = await create(...more);
  expect(`${exitCode} ${stderr}`).toMatch(/^0 /);
  const { payload } = JSON.parse(stdout);
  const contents: Contents = JSON.parse(
    readFileSync(join(at('out'), 'blobs', 'sha256', payload.contents.digest.slice(7)), 'utf8'),
  );
  const images = contents.images.map(({ digest, tags }) => [tags.join(' '), digest]);
  return { images, contents, warnings: payload.warnings as string[] };
}

/** The error, without the warnings before it. */
async function refused(...more: string[]): Promise<string> {
  rmSync(at('out'), { recursive: true, force: true });
  const { exitCode, stderr } = await create(...more);
  expect(exitCode).toBe(1 + Number(/requested twice/.test(stderr)));
  return stderr.replace(/^warning: .*\n/gm, '');
}

/** No tar. */
function plainLayer(mediaType: string) {
  const bytes = Buffer.from(`module of ${mediaType}`);
  const digest = digestOf(bytes);
  return { ...sampleLayer({ seed: mediaType }), mediaType, bytes, digest, sizeBytes: bytes.length, diffId: digest };
}

const put = (name: string, bytes: string | Buffer) => {
  writeFileSync(at(name), bytes);
  return at(name);
};

describe('images without a name beside others', () => {
  it('are left out of an OCI layout, named with their number, and taken as the warning says', async () => {
    const manifests = [
      entry(web, named('quay.io/x/web:1')),
      entry(pause, { 'org.opencontainers.image.ref.name': 'v1' }),
      entry(side, { 'io.containerd.image.name': `sha256:${'1'.repeat(64)}` }),
    ];
    const archive = put('a.tar', layout(manifests, ...blobMembers(web, pause, side)));
    const { images, warnings } = await made('--archive', archive);
    expect(images).toEqual([['quay.io/x/web:1', web.top.digest]]);
    expect(warnings).toEqual([
      `archive ${archive}: image "v1" (${pause.top.digest}), number 1, image "sha256:${'1'.repeat(64)}" (${side.top.digest}), number 2 have no full names, and are left out: unpack the archive into a folder, and give it as --image REFERENCE=oci:FOLDER:@NUMBER, or save it by its name`,
    ]);
    mkdirSync(at('folder'));
    execFileSync('tar', ['xf', archive, '-C', at('folder')]);
    const given = ['--image', `quay.io/x/pause:3=oci:${at('folder')}:@1`];
    expect((await made(...given, '--archive', archive)).images).toEqual([
      ['quay.io/x/pause:3', pause.top.digest],
      ['quay.io/x/web:1', web.top.digest],
    ]);
    const chosen = await made('--archive', at('folder'), '--only', '*/web:*');
    expect(chosen.images).toHaveLength(1);
    expect(chosen.warnings[0]).toContain(`: give it as --image REFERENCE=oci:${at('folder')}:@NUMBER, or save`);
  });

  it('are named before anything is fetched, once, also when the fetch fails, and refused with --strict before it', async () => {
    const manifests = [entry(web, named('quay.io/x/web:1')), entry(pause)];
    const archive = put('a.tar', layout(manifests, ...blobMembers(web, pause)));
    const warning = `warning: archive ${archive}: image ${pause.top.digest}, number 1 has no full name`;
    writeOciLayout(at('layout'), [{ image: side, names: ['side'] }]);
    const good = [
      '--archive',
      archive,
      '--image',
      `quay.io/x/side:1=oci-archive:${put('side.tar', execFileSync('tar', ['c', '-C', at('layout'), '.']))}`,
    ];
    const { exitCode, stderr } = await run(...good);
    expect(exitCode).toBe(0);
    expect(stderr.split(warning)).toHaveLength(2);
    expect(stderr.indexOf(warning)).toBeLessThan(stderr.indexOf('fetching 1 of 1'));
    rmSync(at('out'), { recursive: true });
    const lost = ['--archive', archive, '--image', `quay.io/x/lost:1=oci-archive:${at('lost.tar')}`];
    const failed = await run(...lost);
    expect(failed.exitCode).toBe(1);
    expect(failed.stderr.indexOf(warning)).toBe(0);
    expect(failed.stderr).toContain('lost.tar');
    expect((await create(...lost)).stderr).toContain(warning);
    const strict = await run(...lost, '--strict');
    expect(strict.stderr).toMatch(/^stickpin: 1 warning is an error with --strict, and no bundle was made: archive /);
  });
});

describe('a list beside an archive', () => {
  it('takes the images of the archive, by tag or digest, with its order, components and pins', async () => {
    const archive = put(
      'k3s.tar.zst',
      zstdCompressSync(
        layout(
          [
            entry(web, named('quay.invalid/x/web:1')),
            entry(web, named('quay.invalid/x/web:latest-1')),
            entry(pause, named('quay.invalid/x/pause:3')),
            entry(side, named('quay.invalid/x/side:1')),
          ],
          ...blobMembers(web, pause, side),
        ),
      ),
    );
    const list = put(
      'images.txt',
      `sandbox=quay.invalid/x/pause@${pause.top.digest}\nquay.invalid/x/web:1 pin=false\n`,
    );
    const { images, contents } = await made('--images-file', list, '--archive', archive);
    expect(images).toEqual([
      ['quay.invalid/x/pause:3', pause.top.digest],
      ['quay.invalid/x/web:1 quay.invalid/x/web:latest-1', web.top.digest],
      ['quay.invalid/x/side:1', side.top.digest],
    ]);
    expect(contents.images.map(({ component, pin }) => [component, pin])).toEqual([
      ['sandbox', true],
      ['web', false],
      ['side', true],
    ]);
    expect((await made('--image', 'quay.invalid/x/web:1', '--archive', archive)).images).toHaveLength(3);
    // Another image of that name, and a source that is said, are not taken from the archive.
    writeOciLayout(at('own'), [{ image: side, names: ['web'] }]);
    const other = `quay.invalid/x/web:1=oci:${at('own')}:web`;
    expect(await refused('--image', other, '--archive', archive)).toMatch(/is requested twice with different digests/);
  });
});

describe('a hostile archive', () => {
  it('with long names in many members is refused before its names fill the memory', async () => {
    // pax: 1,200 names of 60,000 characters.
    const parts: Buffer[] = [];
    for (let number = 0; number < 1_200; number += 1) {
      const record = `60012 path=${String(number).padStart(60_000, 'n')}\n`;
      const [header = Buffer.alloc(0)] = [tarArchive([{ path: 'x', bytes: Buffer.from(record) }])];
      const extended = header.subarray(0, -1024);
      extended[156] = 'x'.charCodeAt(0);
      extended.write('        ', 148);
      const sum = extended.subarray(0, 512).reduce((total, byte) => total + byte, 0);
      extended.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
      parts.push(extended, tarArchive([{ path: 'x', bytes: Buffer.from('') }]).subarray(0, 512));
    }
    const archive = put('a.tar', Buffer.concat(parts));
    expect(await refused('--archive', archive)).toMatch(/the names of its members have more than 64 MiB together/);
  });

  it('with a long chain of links is refused', async () => {
    const links = Array.from({ length: 50 }, (_, number) => ({ path: `l${number}`, linkTo: `l${number + 1}` }));
    const manifest = json([{ Config: 'l0', RepoTags: ['x:1'], Layers: [] }]);
    const bytes = tarArchive([
      ...links,
      { path: 'l50', bytes: web.config.bytes },
      { path: 'manifest.json', bytes: manifest },
    ]);
    expect(await refused('--archive', put('a.tar', bytes))).toMatch(/"l0" is a circle of links, or a long chain/);
  });

  it.each([
    ['a FIFO', (path: string) => execFileSync('mknod', [path, 'p'])],
    ['a folder', (path: string) => mkdirSync(path)],
    ['a link to a device', (path: string) => symlinkSync('/dev/zero', path)],
  ])('is not read on in %s beside its first piece', async (_name, make) => {
    const archive = put('x_0.tar', layout([entry(web, named('quay.io/x/web:1'))], ...blobMembers(web)));
    make(at('x_1.tar'));
    expect(await refused('--archive', archive)).toMatch(
      /x_1\.tar beside it would be its next piece, and is not a file: remove it, or rename it/,
    );
    renameSync(at('x_1.tar'), at('y'));
    expect((await made('--archive', archive)).images).toHaveLength(1);
  });

  it.each([
    ['a blob', `blobs/sha256/${web.top.digest.slice(7)}`],
    ['index.json', 'index.json'],
    ['the folder of blobs', 'blobs/sha256'],
    ['the blobs', 'blobs'],
  ])('that is a folder is not followed where %s is a link, and a copy of it is taken', async (_name, part) => {
    const secret = put('secret', 'root:x:0:0');
    writeOciLayout(at('layout'), [{ image: web, names: ['quay.io/x/web:1'] }]);
    const moved = at('moved');
    renameSync(join(at('layout'), part), moved);
    symlinkSync(moved, join(at('layout'), part));
    const error = await refused('--archive', at('layout'));
    expect(error).toMatch(
      /is a link, and links are not followed: copy the folder with cp -rL \S+ COPY, and give the copy/,
    );
    execFileSync('cp', ['-rL', at('layout'), at('copy')]);
    expect((await made('--archive', at('copy'))).images).toHaveLength(1);
    rmSync(at('out'), { recursive: true });
    // Nothing of a file gets into a message before it has its digest.
    const blob = join(at('copy'), `blobs/sha256/${web.top.digest.slice(7)}`);
    cpSync(secret, blob);
    expect(await refused('--archive', at('copy'))).toMatch(/copy: sha256:[0-9a-f]{64} is damaged\n$/);
    rmSync(blob);
    symlinkSync(secret, blob);
    expect(await refused('--archive', at('copy'))).not.toMatch(/root/);
  });
});

describe('a pipe in the place of a file', () => {
  const manifest = `blobs/sha256/${web.manifest.digest.slice(7)}`;
  it.each([
    ['the index of a layout', 'index.json'],
    ['a manifest', manifest],
    ['a layer', `blobs/sha256/${web.layers[0]?.digest.slice(7)}`],
  ])('is not waited for: %s', async (_name, part) => {
    writeOciLayout(at('layout'), [{ image: web, names: ['quay.io/x/web:1'] }]);
    rmSync(join(at('layout'), part));
    execFileSync('mknod', [join(at('layout'), part), 'p']);
    expect(await refused('--image', `quay.io/x/web:1=oci:${at('layout')}`)).toMatch(/ is not a file\n$/);
  });

  it('is not waited for: a medium of OpenShift, and a list that is a device', async () => {
    execFileSync('mknod', [at('pipe'), 'p']);
    expect(await refused('--from-openshift-iso', at('pipe'))).toMatch(
      /pipe is neither a file nor a folder nor a drive/,
    );
    expect(await refused('--image', 'quay.io/x/web:1', '--images-file', '/dev/zero')).toMatch(/zero is a device/);
  });
});

describe('the storage of a registry', () => {
  const store = (repository = 'x/web') =>
    writeRegistryStorage(at('storage'), [
      { repository, image: web, tags: ['1', '1.0'] },
      { repository: 'pause', image: pause, tags: ['3'] },
    ]);
  const pack = () => {
    execFileSync('tar', ['cf', at('s.tar'), '-C', at('storage'), 'docker']);
    return at('s.tar');
  };

  it.each([
    ['a folder', () => at('storage')],
    ['a tar', pack],
  ])('is taken as %s, under the name of the registry that is said', async (_name, give) => {
    store();
    expect(await refused('--archive', give())).toMatch(
      /does not say the name of that registry: say it with --short-names/,
    );
    const { images } = await made('--archive', give(), '--short-names', 'registry.example.com:5000');
    expect(images).toEqual([
      ['registry.example.com:5000/pause:3', pause.top.digest],
      ['registry.example.com:5000/x/web:1.0 registry.example.com:5000/x/web:1', web.top.digest],
    ]);
  });

  it.each([
    ['a folder', () => at('storage')],
    ['a tar', pack],
  ])('is refused as %s with the release of OpenShift, and damaged', async (_name, give) => {
    store('openshift/release-images');
    expect(await refused('--archive', give(), '--short-names', 'x.example')).toMatch(
      /has an OpenShift release: give it with --from-openshift-iso instead/,
    );
    rmSync(at('storage'), { recursive: true });
    store();
    const hex = web.top.digest.slice(7);
    writeFileSync(at(`storage/docker/registry/v2/blobs/sha256/${hex.slice(0, 2)}/${hex}/data`), 'root:x:0:0');
    const error = await refused('--archive', give(), '--short-names', 'x.example');
    expect(error).toContain(`it lacks ${web.top.digest} of x.example/x/web:1`);
    expect(error).not.toContain('root');
  });
});

describe('a document without a tag in the storage of a registry', () => {
  const REGISTRY = ['--short-names', 'registry.example.com'];

  it.each(['a folder', 'a tar'])(
    'is taken from %s where it signs an image with a tag, and named where it is left out',
    async (form) => {
      const signature = sampleReferrer(web.top);
      const report = sampleReferrer(web.top, 'application/spdx+json');
      const earlier = sampleReferrer(side.top);
      const untagged = [side, signature, report, earlier].map((image) => ({ repository: 'x/web', image, tags: [] }));
      writeRegistryStorage(at('storage'), [{ repository: 'x/web', image: web, tags: ['1'] }, ...untagged]);
      execFileSync('tar', ['cf', at('s.tar'), '-C', at('storage'), 'docker']);
      const { contents, warnings } = await made('--archive', at(form === 'a tar' ? 's.tar' : 'storage'), ...REGISTRY);
      expect(contents.images).toHaveLength(1);
      const attached = contents.images[0]?.attached?.flatMap(({ blobs }) => blobs.map(({ digest }) => digest)) ?? [];
      expect(attached).toEqual(expect.arrayContaining(signature.blobs.map(({ digest }) => digest)));
      expect(attached).not.toContain(report.top.digest);
      expect(warnings).toEqual([expect.stringContaining(`${report.top.digest} (application/spdx+json)`)]);
      expect(warnings[0]).toContain(earlier.top.digest);
      expect(warnings[0]).not.toContain(side.top.digest);
    },
  );
});

describe('the way out of a form that is refused', () => {
  const good = layout([entry(web, named('quay.io/x/web:1'))], ...blobMembers(web));
  const expectTaken = async (...more: string[]) => expect((await made(...more)).images).toHaveLength(1);

  it('of archives in an archive, and in a folder', async () => {
    mkdirSync(at('several'));
    writeFileSync(at('several/a.tar'), good);
    const packed = put('several.tar', tarArchive([{ path: 'several/a.tar', bytes: good }]));
    for (const path of [packed, at('several')]) {
      expect(await refused('--archive', path)).toMatch(/has archives in it: take them out, and give each of them/);
    }
    execFileSync('tar', ['xf', packed, '-C', work]);
    await expectTaken('--archive', at('several/a.tar'));
  });

  it('of an unpacked archive', async () => {
    mkdirSync(at('unpacked'));
    writeFileSync(at('unpacked/manifest.json'), json([{ Config: 'c', RepoTags: ['x:1'], Layers: ['l'] }]));
    writeFileSync(at('unpacked/c'), web.config.bytes);
    writeFileSync(at('unpacked/l'), web.layers[0]?.bytes ?? '');
    expect(await refused('--archive', at('unpacked'))).toMatch(/pack it again, as tar cf FILE -C FOLDER \./);
    execFileSync('tar', ['cf', at('f.tar'), '-C', at('unpacked'), '.']);
    await expectTaken('--archive', at('f.tar'));
  });

  it('of a page of a web server, and of a pointer of Git LFS', async () => {
    const pages = ['<!DOCTYPE html><html>', '\ufeff\n<html lang="en">', '<?xml version="1.0"?><Error/>'];
    for (const page of pages) {
      expect(await refused('--archive', put('p.tar.gz', page))).toMatch(
        /it is a page of a web server, .* download it again/,
      );
    }
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${'0'.repeat(64)}\nsize 5\n`;
    expect(await refused('--archive', put('p.tar', pointer))).toMatch(/pointer of Git LFS.* git lfs pull/);
  });

  it('of layers of Nydus', async () => {
    const layers = [plainLayer('application/vnd.oci.image.layer.nydus.blob.v1'), sampleLayer({ seed: 'bootstrap' })];
    const image = sampleImage({ seed: 'nydus', architecture: 'amd64', layers });
    const why = /a layer of Nydus \(.*nydus.blob.v1\), which .*: give the image that it was made of/;
    writeOciLayout(at('layout'), [
      { image, names: ['web-nydus'] },
      { image: web, names: ['web'] },
    ]);
    expect(await refused('--image', `quay.io/x/web:1=oci:${at('layout')}:web-nydus`)).toMatch(why);
    await expectTaken('--image', `quay.io/x/web:1=oci:${at('layout')}:web`);
  });

  it.each([
    ['of an image', 'application/vnd.oci.image.config.v1+json', 'application/vnd.wasm.content.layer.v1+wasm'],
    ['of an artifact', 'application/vnd.wasm.config.v0+json', 'application/wasm'],
  ])('of a module of WebAssembly with the config %s', async (_name, config, layer) => {
    const image = sampleImage({ seed: 'wasm', architecture: 'amd64', layers: [plainLayer(layer)], types: { config } });
    writeOciLayout(at('layout'), [
      { image, names: ['module'] },
      { image: web, names: ['web'] },
    ]);
    const source = `quay.io/x/module:1=oci:${at('layout')}:module`;
    expect(await refused('--image', source)).toMatch(/is not a container image: .*; give it with --artifact\n/);
    const withImage = ['--image', `quay.io/x/web:1=oci:${at('layout')}:web`];
    const given = await made('--artifact', source, ...withImage);
    const entries = [entry(image, named('quay.io/x/module:1')), entry(web, named('quay.io/x/web:1'))];
    const archived = await made('--archive', put('a.tar', layout(entries, ...blobMembers(image, web))));
    for (const { contents } of [given, archived])
      expect(contents.artifacts?.map(({ digest }) => digest)).toEqual([image.top.digest]);
  });

  it('of an image cache of Talos, which has one image without a name and a system', async () => {
    const config = json({ architecture: '', os: '', config: {}, rootfs: { type: 'layers', diff_ids: [] } });
    const members = [
      { path: 'sha256:c', bytes: config },
      { path: 'l.tar.gz', bytes: web.layers[0]?.bytes ?? Buffer.alloc(0) },
      { path: 'manifest.json', bytes: json([{ Config: 'sha256:c', RepoTags: null, Layers: ['l.tar.gz'] }]) },
    ];
    const error = await refused('--archive', put('cache.oci', tarArchive(members)));
    const flat = tarArchive([{ path: 'manifests/quay.io/x/web/digest/sha256:1', bytes: web.top.bytes }]);
    expect(await refused('--archive', put('flat.tar', flat))).toMatch(/image cache of Talos: .*with --images-file/);
    expect(error).toMatch(/no operating system, so it is no container image: .* list of images .*, with --images-file/);
    writeOciLayout(at('layout'), [{ image: web, names: ['web'] }]);
    await expectTaken('--images-file', put('images.txt', `quay.io/x/web:1=oci:${at('layout')}:web\n`));
  });

  const packers = ['xz', 'bzip2', 'lz4', 'zip', 'unzip'];
  describe.runIf(have(...packers.map((name) => program(name, `apt-get install ${name}`))))('of another packer', () => {
    it.each([
      ['xz', 'xz', ['-k'], ['-d', '-f'], 'a.tar.xz', /packed with xz: unpack it with unxz/],
      ['bzip2', 'bzip2', ['-k'], ['-d', '-f'], 'a.tar.bz2', /packed with bzip2: unpack it with bunzip2/],
      [
        'lz4',
        'lz4',
        ['-q', '-k', '-m'],
        ['-q', '-d', '-f', '-m'],
        'a.tar.lz4',
        /packed with lz4: unpack it with unlz4/,
      ],
    ])('%s', async (_name, packer, pack, unpack, packed, why) => {
      put('a.tar', good);
      execFileSync(packer, [...pack, at('a.tar')]);
      expect(await refused('--archive', at(packed))).toMatch(why);
      rmSync(at('a.tar'));
      execFileSync(packer, [...unpack, at(packed)]);
      await expectTaken('--archive', at('a.tar'));
    });

    it('zip', async () => {
      put('a.tar', good);
      execFileSync('zip', ['-q', 'a.zip', 'a.tar'], { cwd: work });
      rmSync(at('a.tar'));
      expect(await refused('--archive', at('a.zip'))).toMatch(/it is a zip: unpack it with unzip/);
      execFileSync('unzip', ['-q', 'a.zip'], { cwd: work });
      await expectTaken('--archive', at('a.tar'));
    });
  });

  describe.runIf(have('skopeo'))('with skopeo', () => {
    it('of an image of Docker without a name', async () => {
      const layer = web.layers[0]?.bytes ?? Buffer.alloc(0);
      const image = (Config: string, RepoTags: string[] | null) => ({ Config, RepoTags, Layers: ['l'] });
      const members = [
        { path: 'a.json', bytes: web.config.bytes },
        { path: 'b.json', bytes: web.config.bytes },
        { path: 'l', bytes: layer },
      ];
      const archive = put(
        'd.tar',
        tarArchive([
          ...members,
          { path: 'manifest.json', bytes: json([image('a.json', ['x:1']), image('b.json', null)]) },
        ]),
      );
      const { warnings } = await made('--archive', archive);
      expect(warnings).toEqual([
        `archive ${archive}: image "b.json", number 1 has no full name, and is left out: give it as --image REFERENCE=docker-archive:${archive}:@NUMBER, or save it by its name, not by its id`,
      ]);
      await expectTaken('--image', `quay.io/x/b:1=docker-archive:${archive}:@1`);
    });

    it('of an image of Docker before 1.10', async () => {
      const docker = 'application/vnd.docker.distribution.manifest.v2+json';
      const layers = [
        { ...sampleLayer({ seed: 'old' }), mediaType: 'application/vnd.docker.image.rootfs.diff.tar.gzip' },
      ];
      const types = { manifest: docker, config: 'application/octet-stream' };
      const image = sampleImage({ seed: 'old', architecture: 'amd64', layers, types });
      writeOciLayout(at('layout'), [{ image, names: ['old'] }]);
      const why = /image of Docker before 1\.10: .* copy it with 'skopeo copy --format oci', and give the copy/;
      expect(await refused('--image', `quay.io/x/old:1=oci:${at('layout')}:old`)).toMatch(why);
      const archive = put('old.tar', layout([entry(image, named('quay.io/x/old:1'))], ...blobMembers(image)));
      expect(await refused('--archive', archive)).toMatch(why);
      mkdirSync(at('dir'));
      writeFileSync(at('dir/version'), 'Directory Transport Version: 1.1\n');
      writeFileSync(at('dir/manifest.json'), image.top.bytes);
      for (const { digest, bytes } of image.blobs) writeFileSync(at(`dir/${digest.slice(7)}`), bytes);
      const copy = ['copy', '--quiet', '--format', 'oci', `dir:${at('dir')}`, `oci:${at('new')}:old`];
      execFileSync('skopeo', ['--insecure-policy', ...copy]);
      await expectTaken('--image', `quay.io/x/old:1=oci:${at('new')}:old`);
    });

    it("of folders in the form of skopeo's dir:, as skopeo sync makes them", async () => {
      writeOciLayout(at('layout'), [{ image: web, names: ['web'] }]);
      mkdirSync(at('synced/quay.io/x'), { recursive: true });
      const folder = at('synced/quay.io/x/web:1');
      execFileSync('skopeo', ['--insecure-policy', 'copy', '--quiet', `oci:${at('layout')}:web`, `dir:${folder}`]);
      execFileSync('tar', ['cf', at('synced.tar'), '-C', at('synced'), '.']);
      execFileSync('tar', ['cf', at('one.tar'), '-C', folder, '.']);
      for (const path of [at('synced'), folder, at('synced.tar'), at('one.tar')]) {
        expect(await refused('--archive', path)).toMatch(
          /give each as --image REFERENCE=dir:FOLDER, with the folder of/,
        );
      }
      await expectTaken('--image', `quay.io/x/web:1=dir:${folder}`);
    });
  });
});
