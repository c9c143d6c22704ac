import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { storedBlob, writeRegistryStorage } from '../../support/bundles/registry-storage.ts';
import { installKeys, sampleKey } from '../../support/bundles/sample-bundle.ts';
import { type SampleImage, sampleImage, sampleLayer } from '../../support/bundles/sample-image.ts';
import { sampleRelease } from '../../support/bundles/sample-release.ts';
import { sampleSignature } from '../../support/bundles/sample-signature.ts';
import { tarArchive } from '../../support/bundles/tar-archive.ts';
import { blocksBelow, runBlocks, stickpinOnPath } from '../../support/docs/run-blocks.ts';
import { entriesBelow } from '../../support/files/entries-below.ts';
import { flipByte } from '../../support/files/flip-byte.ts';
import { mounting, mountSmallDisk } from '../../support/files/small-disk.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { ended } from '../../support/matching.ts';
import { have, program } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const ART = 'quay.io/openshift-release-dev/ocp-v4.0-art-dev';
const OCP = 'quay.io/openshift-release-dev/ocp-release';
const MiB = 1024 ** 2;
const key = sampleKey();
const etcd = sampleImage({ seed: 'etcd', architecture: 'amd64' });
const cli = sampleImage({ seed: 'cli', architecture: 'amd64' });
const extra = sampleImage({ seed: 'extra', architecture: 'amd64' });
const payload = [
  { name: 'etcd', reference: `${ART}@${etcd.manifest.digest}` },
  { name: 'cli', reference: `${ART}@${cli.manifest.digest}` },
];
const release = sampleRelease(payload, { labels: { 'io.openshift.release': '4.13.7' } });
const iso = program('xorriso', 'apt-get install xorriso');

const root = folderForEach();
const at = (name: string) => join(root, name);
beforeEach(() => {
  chmodSync(root, 0o755);
  writeFileSync(at('factory.key'), key.privatePem);
  installKeys(at('keys'), [key]);
  mkdirSync(at('work'));
});

interface MediumOptions {
  /** Where the storage is. */
  readonly below?: string;
  readonly release?: SampleImage;
  readonly tag?: string;
  readonly env?: string;
}

/** A medium as a folder, in the layout of `openshift-appliance build upgrade-iso`. */
function writeMedium({ below = 'oc-mirror/install', tag, env, ...more }: MediumOptions = {}): string {
  const image = more.release ?? release;
  const own = tag ?? image.top.digest.slice('sha256:'.length);
  writeRegistryStorage(at(join('medium', below)), [
    { repository: 'openshift/release-images', image, tags: [own] },
    { repository: 'openshift/release', image: etcd, tags: ['4.13.7-x86_64-etcd'] },
    { repository: 'openshift/release', image: cli, tags: [] },
  ]);
  if (env !== undefined) writeFileSync(at('medium/release.env'), env);
  return at('medium');
}

/** `-r` makes all folders read-only, as most media have them; `-R` keeps their modes. */
function makeIso(folder: string, label = 'upgrade_4.13.7', modes: '-r' | '-R' = '-R'): string {
  execFileSync('xorriso', ['-as', 'mkisofs', '-quiet', '-V', label, modes, '-J', '-o', at('x.iso'), folder], {
    stdio: 'ignore',
  });
  return at('x.iso');
}

const create = (path: string, ...more: string[]) =>
  runCommand([
    ...['bundle', 'create', '--from-openshift-iso', path, '--sequence', '1', '--out', at('work/bundle')],
    ...['--key', at('factory.key'), ...more],
  ]);
const inspect = async () => JSON.parse((await runCommand(['bundle', 'inspect', at('work/bundle'), '--json'])).stdout);
const images = async (): Promise<{ reference: string; tags: string[]; component: string; attached?: unknown[] }[]> =>
  (await inspect()).contents.images;

describe('bundle create --from-openshift-iso of a folder', () => {
  it.each(['', 'oc-mirror/install', 'upgrade/oc-mirror/install', 'images'])(
    'finds the storage below %j, and the version and platform in the release image',
    async (below) => {
      const made = await create(writeMedium({ below }));
      expect(made).toMatchObject({ exitCode: 0, stderr: '' });
      expect(made.stdout).toMatch(/^ocp 4\.13\.7 for amd64 is in .*: 3 images/);
      expect((await images()).map(({ reference, component }) => [component, reference])).toEqual([
        ['ocp-release', `${OCP}@${release.top.digest}`],
        ['etcd', payload[0]?.reference],
        ['cli', payload[1]?.reference],
      ]);
      const verified = await runCommand(['bundle', 'verify', at('work/bundle'), '--keys', at('keys'), '--full']);
      expect(verified.exitCode).toBe(0);
      expect(readFileSync(storedBlob(at(join('medium', below)), etcd.config))).toEqual(etcd.config.bytes);
      expect(readdirSync(at('work'))).toEqual(['bundle']);
    },
  );

  it('takes the name of the release from a tag, from release.env, or from --release', async () => {
    const medium = writeMedium({ tag: '4.13.7-x86_64' });
    await create(medium);
    expect((await images())[0]).toMatchObject({ tags: [`${OCP}:4.13.7-x86_64`] });
    rmSync(at('work/bundle'), { recursive: true });
    writeFileSync(at('medium/release.env'), `RELEASE_IMAGE=registry.example.com/r:4.13.7\nRELEASE_VERSION=4.13.7\n`);
    await create(medium);
    expect((await images())[0]).toMatchObject({ tags: ['registry.example.com/r:4.13.7'] });
    rmSync(at('work/bundle'), { recursive: true });
    await create(medium, '--release', 'mirror.example.com/ocp:1', '--name', 'edge');
    expect((await images())[0]).toMatchObject({ tags: ['mirror.example.com/ocp:1'] });
    expect((await inspect()).payload.name).toBe('edge');
  });

  it('takes the version from release.env or from --version where the image does not say it', async () => {
    const silent = sampleRelease(payload);
    const medium = writeMedium({ release: silent });
    const unknown = await create(medium);
    expect(unknown).toMatchObject(ended(2, 'give --version, for example'));
    expect((await create(medium, '--version', '4.1.2')).stdout).toMatch(/^ocp 4\.1\.2 /);
    rmSync(at('work/bundle'), { recursive: true });
    writeFileSync(at('medium/release.env'), 'RELEASE_VERSION=4.2.3\n');
    expect((await create(medium)).stdout).toMatch(/^ocp 4\.2\.3 /);
  });

  it('asks which release is meant when there are several, and refuses one that is not there', async () => {
    const medium = writeMedium();
    const next = sampleRelease(payload.slice(0, 1), { labels: { 'io.openshift.release': '4.13.8' } });
    writeRegistryStorage(join(medium, 'oc-mirror/install'), [
      { repository: 'openshift/release-images', image: next, tags: ['4.13.8-x86_64'] },
    ]);
    const several = await create(medium);
    expect(several).toMatchObject(ended(2, /several releases, .*4\.13\.8.*--version/));
    const none = await create(medium, '--version', '4.13.9');
    expect(none).toMatchObject(ended(2, /4\.13\.9 is not on .*4\.13\.7 \(sha256:/));
    const made = await create(medium, '--version', '4.13.8');
    expect(made.stdout).toMatch(/^ocp 4\.13\.8 for amd64 is in .*: 2 images/);
  });

  it('takes signatures along, and names images that are not part of the release', async () => {
    const medium = writeMedium();
    const storage = join(medium, 'oc-mirror/install');
    writeRegistryStorage(storage, [
      { repository: 'openshift/release', image: sampleSignature(etcd.manifest.digest), tags: [signatureTag(etcd)] },
      { repository: 'tools/extra', image: extra, tags: ['1'] },
    ]);
    const made = await create(medium);
    expect(made.stderr).toBe(
      `warning: images on ${medium} that are not part of the release are left out: tools/extra (1)\n`,
    );
    expect((await images())[1]?.attached).toMatchObject([{ tag: signatureTag(etcd) }]);
    rmSync(at('work/bundle'), { recursive: true });
    expect(await create(medium, '--strict')).toMatchObject(ended(1, '--strict'));
    expect(readdirSync(at('work'))).toEqual([]);
  });

  it('takes images that are not part of the release where their registry is named', async () => {
    const medium = writeMedium();
    const catalog = sampleImage({ seed: 'catalog', architecture: 'amd64', withIndex: true });
    const operator = sampleImage({ seed: 'operator', architecture: 'amd64' });
    writeRegistryStorage(join(medium, 'oc-mirror/install'), [
      { repository: 'redhat/index', image: catalog, tags: ['v4.13', 'v4.14'] },
      { repository: 'openshift4/operator', image: operator, tags: [] },
      { repository: 'tools/extra', image: extra, tags: ['1'] },
    ]);
    const named = ['redhat=registry.redhat.io', 'openshift4/=registry.example.com:5000'];
    const made = await create(medium, ...named.flatMap((one) => ['--with-other-images', one]));
    expect(made).toMatchObject(ended(0, /left out: tools\/extra \(1\)\n$/));
    expect((await images()).slice(0, 2)).toMatchObject([
      { reference: `registry.example.com:5000/openshift4/operator@${operator.top.digest}`, tags: [] },
      {
        reference: `registry.redhat.io/redhat/index@${catalog.top.digest}`,
        tags: ['registry.redhat.io/redhat/index:v4.13', 'registry.redhat.io/redhat/index:v4.14'],
      },
    ]);
    rmSync(at('work/bundle'), { recursive: true });
    rmSync(storedBlob(join(medium, 'oc-mirror/install'), operator.config));
    const all = await create(medium, '--with-other-images', 'quay.io');
    expect(all).toMatchObject(
      ended(0, /^warning: an image is left out: openshift4\/operator on .* is not on the medium/),
    );
    expect((await images()).map(({ reference }) => reference)).toContain(`quay.io/tools/extra@${extra.top.digest}`);
    expect(await create(medium, '--with-other-images', 'no registry')).toMatchObject(ended(2, 'It must be a registry'));
    expect(
      await runCommand(['bundle', 'create', '--name', 'a', '--with-other-images', 'quay.io', '--sequence', '1']),
    ).toMatchObject(ended(2, 'is for images of --from-openshift-iso'));
  });

  it('still requires what a bundle without a medium requires', async () => {
    const named = ['--name', 'ocp', '--version', '1.0.0', '--sequence', '1', '--out', at('work/bundle')];
    const { exitCode, stderr } = await runCommand(['bundle', 'create', ...named]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/required option '--arch <arch>' not specified; .*see 'stickpin bundle create --help'/);
    const twice = await create(writeMedium(), '--release', `a.example.com/r:1=oci:${at('x')}:y`);
    expect(twice).toMatchObject(ended(2, 'give its name only'));
  });
});

describe('a bad OpenShift medium', () => {
  const blob = (image: SampleImage, at_: 'config' | 'layer' | 'manifest') =>
    storedBlob(
      at('medium/oc-mirror/install'),
      at_ === 'config' ? image.config : at_ === 'layer' ? (image.layers[0] ?? image.config) : image.manifest,
    );
  const repositories = () => at('medium/oc-mirror/install/docker/registry/v2/repositories');
  const releaseLink = () => {
    const tag = release.top.digest.slice(7);
    return join(repositories(), `openshift/release-images/_manifests/tags/${tag}/current/link`);
  };
  const linkTo = (target: string, path: string) => {
    rmSync(path, { recursive: true, force: true });
    symlinkSync(target, path);
  };

  it.each<[string, () => void, RegExp]>([
    ['lacks a manifest', () => rmSync(blob(etcd, 'manifest')), /etcd on .*: blob sha256:.* is not on the medium/],
    ['lacks a layer', () => rmSync(blob(cli, 'layer')), /cli on .*: blob sha256:.* is not on the medium/],
    ['has a layer that was cut', () => truncateSync(blob(cli, 'layer'), 10), /it has 10 bytes, and \d+ were expected/],
    ['has a layer with other bytes', () => flipByte(blob(cli, 'layer'), -3), /damaged/],
    [
      'has a manifest with other bytes',
      () => flipByte(blob(etcd, 'manifest'), -3),
      /damaged, its digest is not sha256/,
    ],
    ['has a link in place of a blob', () => linkTo('/etc/passwd', blob(etcd, 'config')), /links are not followed/],
    ['has a link in place of a folder', () => linkTo('/etc', join(repositories(), 'evil')), /it is a link/],
    ['has a circle of links', () => linkTo('..', join(repositories(), 'openshift/loop')), /it is a link/],
    ['names no digest', () => writeFileSync(releaseLink(), 'sha256:../../etc/passwd'), /has no sha256 digest/],
    ['has an endless tag', () => truncateSync(releaseLink(), 1e9), /too large to be a digest/],
    [
      'has no release',
      () => rmSync(join(repositories(), 'openshift/release-images'), { recursive: true }),
      /no release image/,
    ],
    ['has no storage', () => rmSync(at('medium/oc-mirror'), { recursive: true }), /no folder docker\/registry\/v2/],
    [
      'has another release than it says',
      () => writeFileSync(at('medium/release.env'), `RELEASE_IMAGE=${OCP}@sha256:${'0'.repeat(64)}\n`),
      /it is not complete, or altered/,
    ],
    [
      'has two storages',
      () => writeRegistryStorage(at('medium/x'), [{ repository: 'a', image: extra, tags: [] }]),
      /several storages/,
    ],
  ])('that %s makes no bundle', async (_name, damage, message) => {
    const medium = writeMedium();
    damage();
    const { exitCode, stderr } = await create(medium);
    expect(stderr).toMatch(message);
    expect(exitCode).toBe(1);
    expect(entriesBelow(at('work'))).toEqual([]);
  });

  it('that is not there, or is no OpenShift medium, makes no bundle', async () => {
    expect((await create(at('none.iso'))).stderr).toMatch(/none\.iso can't be read/);
    writeFileSync(at('noise.iso'), Buffer.alloc(400_000, 7));
    if (!have(iso)) return;
    expect((await create(at('noise.iso'))).stderr).toMatch(/no folder docker\/registry\/v2/);
    expect(entriesBelow(at('work'))).toEqual([]);
  });
});

describe('bundle create --from-openshift-iso of an archive of oc-mirror 2', () => {
  const hex = release.top.digest.slice('sha256:'.length);
  /** In two parts, as `archiveSize` makes them: repositories and files first, then blobs. */
  function writeArchive(): string {
    const medium = writeMedium({ below: '' });
    mkdirSync(join(medium, 'working-dir/signatures'), { recursive: true });
    writeFileSync(join(medium, `working-dir/signatures/4.13.7-x86_64-sha256-${hex}`), Buffer.from([0xa3, 1]));
    writeFileSync(join(medium, 'isc_2026-01-01T00:00:00Z'), 'kind: ImageSetConfiguration\n');
    mkdirSync(at('mirror'));
    const tar = (nr: number, ...names: string[]) =>
      execFileSync('tar', ['-C', medium, '--format=pax', '-cf', at(`mirror/mirror_00000${nr}.tar`), ...names]);
    tar(1, 'docker/registry/v2/repositories', 'working-dir', 'isc_2026-01-01T00:00:00Z');
    tar(2, 'docker/registry/v2/blobs');
    return medium;
  }

  it('makes the same bundle as of its files, whichever part or folder is named', async () => {
    const medium = writeArchive();
    await create(medium);
    const { bundleId, payload: made } = await inspect();
    expect(made.attachments).toHaveLength(1);
    for (const path of ['mirror', 'mirror/mirror_000001.tar', 'mirror/mirror_000002.tar']) {
      rmSync(at('work/bundle'), { recursive: true });
      const { exitCode, stderr } = await create(at(path));
      expect(`${exitCode} ${stderr}`).toMatch(/^0 warning: signatures of .* give --release-key\n$/);
      expect((await inspect()).bundleId).toBe(bundleId);
      expect(readdirSync(at('work'))).toEqual(['bundle']);
    }
  });

  it('may be given as archives', async () => {
    await create(writeArchive());
    const { bundleId } = await inspect();
    rmSync(at('work/bundle'), { recursive: true });
    const parts = ['mirror_000001.tar', 'mirror_000002.tar'].flatMap((name) => ['--archive', at(`mirror/${name}`)]);
    const fixed = ['--sequence', '1', '--out', at('work/bundle'), '--key', at('factory.key')];
    expect(await runCommand(['bundle', 'create', ...parts, ...fixed])).toMatchObject({ exitCode: 0 });
    expect((await inspect()).bundleId).toBe(bundleId);
  });

  it('may be one file with any name, packed too', async () => {
    const medium = writeArchive();
    execFileSync('tar', ['-C', medium, '-czf', at('all.tgz'), '.']);
    expect(await create(at('all.tgz'))).toMatchObject({ exitCode: 0 });
    expect((await images())[0]?.component).toBe('ocp-release');
  });

  it.each<[string, () => void, RegExp]>([
    [
      'lacks a part',
      () => renameSync(at('mirror/mirror_000001.tar'), at('mirror/mirror_000003.tar')),
      /mirror_000001\.tar is missing/,
    ],
    [
      'lacks the last part',
      () => rmSync(at('mirror/mirror_000002.tar')),
      /the release image on .*mirror: blob sha256:\S+ is not on the medium/,
    ],
    ['is cut', () => truncateSync(at('mirror/mirror_000002.tar'), 20_000), /archive .*mirror_000002\.tar.* cut off/],
    [
      'has files where folders are',
      () =>
        writeFileSync(
          at('mirror/mirror_000003.tar'),
          tarArchive([{ path: 'docker/registry/v2/repositories/openshift', bytes: Buffer.from('x') }]),
        ),
      /archive .*mirror_000003\.tar can't be read/,
    ],
    [
      'has no storage',
      () => {
        rmSync(at('mirror/mirror_000002.tar'));
        const evil = ['../docker/registry/v2/evil', '/docker/registry/v2x', 'other'];
        const members = evil.map((path) => ({ path, bytes: Buffer.from('x') }));
        writeFileSync(at('mirror/mirror_000001.tar'), tarArchive([...members, { path: 'docker', linkTo: '/etc' }]));
      },
      /mirror has no folder docker\/registry\/v2/,
    ],
  ])('that %s makes none', async (_name, damage, why) => {
    writeArchive();
    damage();
    const { exitCode, stderr } = await create(at('mirror'));
    expect(stderr).toMatch(why);
    expect(stderr).not.toContain(at('work'));
    expect(exitCode).toBe(1);
    expect(entriesBelow(at('work'))).toEqual([]);
  });
});

describe.runIf(have(iso))('bundle create --from-openshift-iso of an ISO image', () => {
  it('makes the same bundle as of its folder', async () => {
    const medium = writeMedium({ env: 'RELEASE_VERSION=4.13.7\n' });
    await create(medium);
    const { bundleId } = await inspect();
    rmSync(at('work/bundle'), { recursive: true });
    expect(await create(makeIso(medium))).toMatchObject({ exitCode: 0, stderr: '' });
    expect((await inspect()).bundleId).toBe(bundleId);
    expect(readdirSync(at('work'))).toEqual(['bundle']);
  });

  it('takes the version from the label, and works for a large layer and an index', async () => {
    const large = sampleLayer({ seed: 'large', sizeBytes: 8 * 1024 * 1024 });
    const big = sampleImage({ seed: 'big', architecture: 'amd64', layers: [large], withIndex: true });
    const tags = [{ name: 'big', reference: `${ART}@${big.top.digest}` }];
    const medium = writeMedium({ release: sampleRelease(tags) });
    writeRegistryStorage(join(medium, 'oc-mirror/install'), [
      { repository: 'openshift/release', image: big, tags: [] },
    ]);
    const made = await create(makeIso(medium, 'upgrade_4.13.9'));
    expect(made).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^ocp 4\.13\.9 for amd64/) });
    expect(made.stderr).toContain('openshift/release (2)');
  });

  it('takes the storage of a live ISO, a data.iso in parts, from the image or its folder', async () => {
    const medium = writeMedium();
    writeFileSync(join(medium, 'data.iso'), 'not needed beside a storage');
    await create(medium);
    const { bundleId } = await inspect();
    rmSync(at('work/bundle'), { recursive: true });
    mkdirSync(at('live/registry'), { recursive: true });
    mkdirSync(at('live/images'));
    execFileSync('split', ['--bytes=300K', makeIso(medium, 'agentdata', '-r'), at('live/registry/data.iso')]);
    expect(readdirSync(at('live/registry')).length).toBeGreaterThan(1);
    for (const path of [at('live'), makeIso(at('live'), 'rhcos-413')]) {
      expect(await create(path)).toMatchObject({ exitCode: 0, stderr: '' });
      expect((await inspect()).bundleId).toBe(bundleId);
      rmSync(at('work/bundle'), { recursive: true });
    }
    rmSync(at('live/registry/data.isoaa'));
    const cut = await create(makeIso(at('live'), 'rhcos-413'));
    expect(cut.exitCode).toBe(1);
    expect(cut.stderr).not.toContain(at('work'));
    expect(entriesBelow(at('work'))).toEqual([]);
  });

  it.each([
    ['upgrade_4.13.9', '4.13.9'],
    ['ocp-release-bundle-4.21.5-x86_64', '4.21.5'],
    ['ocp-release-bundle-4.21.15-x86_6', '4.21.15'],
    ['ocp-release-bundle-4.21.0-ec.3-x', undefined],
  ])('takes the version from the label %s', async (label, version) => {
    const image = makeIso(writeMedium({ release: sampleRelease(payload) }), label);
    const { stdout, exitCode } = await create(image);
    if (version === undefined) expect(exitCode).toBe(2);
    else expect(stdout).toContain(`ocp ${version} for amd64`);
  });

  it('carries the signatures on it, with a warning where they are not checked, and names what it can not read', async () => {
    const medium = writeMedium();
    const hex = release.top.digest.slice('sha256:'.length);
    mkdirSync(join(medium, 'working-dir/signatures'), { recursive: true });
    mkdirSync(join(medium, 'working-dir/cluster-resources'));
    writeFileSync(join(medium, `working-dir/signatures/4.13.7-x86_64-sha256-${hex}`), Buffer.from([0xa3, 1]));
    const configMap = join(medium, 'working-dir/cluster-resources/signature-configmap.yaml');
    writeFileSync(
      configMap,
      `kind: ConfigMap\nbinaryData:\n  sha256-${hex}-1: owE=\n  sha256-${'1'.repeat(64)}-1: owI=\n`,
    );
    for (const path of [medium, makeIso(medium)]) {
      expect(await create(path)).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('give --release-key') });
      const [file, ...others] = (await inspect()).payload.attachments;
      expect(others).toEqual([]);
      const text = readFileSync(at(`work/bundle/blobs/sha256/${file.digest.slice(7)}`), 'utf8');
      expect(JSON.parse(text).binaryData).toEqual({ [`sha256-${hex}-1`]: 'owE=' });
      rmSync(at('work/bundle'), { recursive: true });
    }
    rmSync(join(medium, 'working-dir/signatures'), { recursive: true });
    writeFileSync(configMap, 'a: [');
    const made = await create(makeIso(medium));
    expect(made.exitCode).toBe(0);
    expect(made.stderr).toContain(`x.iso/working-dir/cluster-resources/signature-configmap.yaml:1`);
    expect(made.stderr).not.toContain(at('work'));
  });

  it('that was cut makes none, and neither does one whose target is there', async () => {
    const image = makeIso(writeMedium());
    truncateSync(image, 200_000);
    const cut = await create(image);
    expect(cut.exitCode).toBe(1);
    expect(cut.stderr).toMatch(/^stickpin: (?:xorriso: |.*(?:damaged|not on the medium|no release image))/);
    expect(entriesBelow(at('work'))).toEqual([]);
    writeFileSync(at('work/bundle'), 'mine');
    expect((await create(at('none'))).stderr).toMatch(/exists already and is not an empty directory/);
    expect(readdirSync(at('work'))).toEqual(['bundle']);
  });

  it('with links makes none', async () => {
    const medium = writeMedium();
    symlinkSync('/etc', at('medium/oc-mirror/install/docker/registry/v2/repositories/evil'));
    const { exitCode, stderr } = await create(makeIso(medium));
    expect(stderr).toMatch(/it is a link, and links are not followed/);
    expect(exitCode).toBe(1);
    expect(entriesBelow(at('work'))).toEqual([]);
  });

  it.each(['-r', '-R'] as const)('needs no root, as docs/factory.md shows (mkisofs %s)', async (modes) => {
    const programs = await stickpinOnPath(at('programs'));
    execFileSync('mv', [makeIso(writeMedium(), undefined, modes), at('work/upgrade-4.13.7.iso')]);
    execFileSync('cp', [at('factory.key'), at('work/factory-2026.key')]);
    execFileSync('chown', ['-R', '65534:65534', root]);
    const [block = ''] = await blocksBelow('docs/factory.md', '## Take an OpenShift medium');
    writeFileSync(at('make.sh'), block);
    const asNobody = 'setpriv --reuid 65534 --regid 65534 --clear-groups';
    const output = await runBlocks([`${asNobody} sh -eu ../make.sh`], { directory: at('work'), programs });
    expect(output).toContain('ocp 4.13.7 for amd64 is in ocp-4.13.7-amd64: 3 images');
    expect(readdirSync(at('work')).sort()).toEqual(['factory-2026.key', 'ocp-4.13.7-amd64', 'upgrade-4.13.7.iso']);
  });

  it('without root leaves nothing behind when a blob is absent', async () => {
    const programs = await stickpinOnPath(at('programs'));
    const medium = writeMedium();
    rmSync(storedBlob(join(medium, 'oc-mirror/install'), etcd.manifest));
    const image = makeIso(medium, undefined, '-r');
    execFileSync('chown', ['-R', '65534:65534', root]);
    const options = `--from-openshift-iso ${image} --sequence 1 --out bundle --key ../factory.key`;
    const command = `setpriv --reuid 65534 --regid 65534 --clear-groups stickpin bundle create ${options}`;
    const output = await runBlocks([`${command} 2>&1 || true`], { directory: at('work'), programs });
    expect(output).toMatch(/blob sha256:.* is not on the medium/);
    expect(readdirSync(at('work'))).toEqual([]);
  });

  const loop = ['root', mounting, program('losetup', 'apt-get install mount')] as const;
  it.runIf(have(...loop))('in a drive is too large for a full disk before anything is copied', async () => {
    const image = makeIso(writeMedium());
    truncateSync(image, 8 * MiB);
    const drive = execFileSync('losetup', ['--find', '--show', '--read-only', image], {
      encoding: 'utf8',
    }).trim();
    const disk = mountSmallDisk('tmpfs', MiB / 4);
    try {
      const { exitCode, stderr } = await create(drive, '--out', join(disk.path, 'bundle'));
      expect(stderr).toMatch(/^stickpin: not enough space in .*: the bundle needs \S+ [KM]iB/);
      expect(exitCode).toBe(1);
      expect(readdirSync(disk.path)).toEqual([]);
    } finally {
      disk.dispose();
      execFileSync('losetup', ['--detach', drive]);
    }
  });
});

function signatureTag({ manifest }: SampleImage): string {
  return `${manifest.digest.replace(':', '-')}.sig`;
}
