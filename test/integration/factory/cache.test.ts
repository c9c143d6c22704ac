import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import * as v from 'valibot';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { FACTORY_DOCUMENTS } from '../../../src/cli/schema/factory-documents.ts';
import {
  digestOf,
  type SampleImage,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const KIB = 1024;
const root = folderForEach();
const at = (...names: string[]) => join(root, ...names);
const cached = (digest: string) => at('cache', 'stickpin', 'blobs', 'sha256', digest.slice(7));
const shared = sampleLayer({ seed: 'os', sizeBytes: 200 * KIB });
const make = (seed: string, withIndex = false) =>
  sampleImage({ seed, architecture: 'amd64', withIndex, layers: [shared, sampleLayer({ seed })] });
const images = { web: make('web'), db: make('db', true) };
let registry: SourceRegistry;

beforeEach(async () => {
  registry = await startSourceRegistry();
  for (const [name, image] of Object.entries(images)) registry.add(`shop/${name}`, image, ['1']);
  mkdirSync(at('.config', 'containers'), { recursive: true });
  const mirror = `[[registry]]\nlocation = "${registry.host}"\ninsecure = true\n`;
  writeFileSync(at('.config', 'containers', 'registries.conf'), mirror);
  policy({ default: [{ type: 'insecureAcceptAnything' }] });
  vi.stubEnv('HOME', root);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await registry.close();
});

const policy = (rules: object) => writeFileSync(at('.config', 'containers', 'policy.json'), JSON.stringify(rules));

function create(out: string, ...more: string[]) {
  const named = ['--name', 'shop', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--out', at(out)];
  const from = Object.keys(images).flatMap((name) => ['--image', `${registry.host}/shop/${name}:1`]);
  const env = { HOME: root, XDG_CACHE_HOME: at('cache') };
  return runCommand(['bundle', 'create', ...named, ...from, '--referrers', 'none', ...more], { env });
}

/** The image with other media types, and perhaps another config; Docker's without one. */
function inForm(
  image: SampleImage,
  { config, layer }: { config?: { mediaType: string; bytes: Buffer }; layer: string },
) {
  const docker = 'application/vnd.docker';
  const blob = (mediaType: string, bytes: Buffer) => ({
    mediaType,
    bytes,
    digest: digestOf(bytes),
    sizeBytes: bytes.length,
  });
  const parsed = JSON.parse(image.manifest.bytes.toString());
  const other = config && blob(config.mediaType, config.bytes);
  const described = other
    ? { mediaType: other.mediaType, digest: other.digest, size: other.sizeBytes }
    : { ...parsed.config, mediaType: `${docker}.container.image.v1+json` };
  const mediaType = config ? parsed.mediaType : `${docker}.distribution.manifest.v2+json`;
  const layers = parsed.layers.map((one: object) => ({ ...one, mediaType: layer }));
  const text = JSON.stringify({ ...parsed, mediaType, config: described, layers });
  const manifest = blob(mediaType, Buffer.from(text));
  const used = other ?? image.config;
  return { ...image, config: used, manifest, top: manifest, blobs: [manifest, used, ...image.layers] };
}

const layerOf = (image: SampleImage) => image.layers[1]?.digest ?? '';
const blobRequests = () => registry.requests.filter(({ kind }) => kind === 'blob').map(({ digest }) => digest);

describe.runIf(have('skopeo'))('the cache of bundle create', () => {
  it('has what was fetched before a failure', async () => {
    registry.breakDown(layerOf(images.db), { kind: 'status', status: 404 });
    expect(await create('one')).toMatchObject({ exitCode: 1 });
    expect(readdirSync(root).filter((name) => name.includes('one'))).toEqual([]);
    registry.mend(layerOf(images.db));
    registry.forget();
    const { exitCode, stderr } = await create('one');
    expect(exitCode, stderr).toBe(0);
    expect(blobRequests()).not.toContain(layerOf(images.web));
    expect(blobRequests()).toContain(layerOf(images.db));
  });

  it('serves a second bundle, which is the same', async () => {
    const first = await create('one', '--json');
    registry.forget();
    const second = await create('two', '--json');
    expect(blobRequests()).toEqual([]);
    expect(JSON.parse(second.stdout).bundleId).toBe(JSON.parse(first.stdout).bundleId);
  });

  it('is not used with --no-cache, and is elsewhere with --cache', async () => {
    await create('one', '--no-cache');
    expect(existsSync(at('cache'))).toBe(false);
    await create('two', '--cache', at('mine'));
    expect(existsSync(at('cache'))).toBe(false);
    expect(readdirSync(at('mine'))).toEqual(['CACHEDIR.TAG', 'blobs', 'images']);
  });

  it.each([
    ['is cut', (path: string) => truncateSync(path, 10)],
    ['has other bytes', (path: string) => writeFileSync(path, Buffer.alloc(statSync(path).size))],
    ['is gone', (path: string) => rmSync(path)],
    [
      'is a link to other bytes',
      (path: string) => {
        const { size } = statSync(path);
        writeFileSync(at('other'), Buffer.alloc(size));
        rmSync(path);
        symlinkSync(at('other'), path);
      },
    ],
  ])('fetches an image again whose blob %s', async (_, damage) => {
    const first = await create('one', '--json');
    rmSync(at('one'), { recursive: true });
    damage(cached(layerOf(images.web)));
    registry.forget();
    const second = await create('one', '--json');
    expect(second.exitCode, second.stderr).toBe(0);
    expect(JSON.parse(second.stdout).bundleId).toBe(JSON.parse(first.stdout).bundleId);
    expect(blobRequests()).toContain(layerOf(images.web));
    expect(blobRequests()).not.toContain(layerOf(images.db));
    registry.forget();
    await create('three');
    expect(blobRequests()).toEqual([]);
  });

  it('does nothing for damage to the manifests', async () => {
    await create('one');
    const folder = at('cache', 'stickpin', 'images');
    for (const name of readdirSync(folder)) writeFileSync(join(folder, name), '{}');
    expect(await create('two')).toMatchObject({ exitCode: 0 });
  });

  it('lets two bundles be made at once', async () => {
    const made = await Promise.all([create('one', '--json'), create('two', '--json')]);
    expect(made.map(({ exitCode }) => exitCode)).toEqual([0, 0]);
    const ids = new Set(made.map(({ stdout }) => JSON.parse(stdout).bundleId));
    expect(ids.size).toBe(1);
    const verified = await runCommand(['bundle', 'inspect', at('two')]);
    expect(verified.exitCode).toBe(0);
  });

  it('removes what was not used for longest', async () => {
    await create('one');
    const old = cached(layerOf(images.web));
    utimesSync(old, 1, 1);
    const bytes = readdirSync(at('cache', 'stickpin', 'blobs', 'sha256'))
      .map((name) => statSync(at('cache', 'stickpin', 'blobs', 'sha256', name)).size)
      .reduce((sum, size) => sum + size, 0);
    const folder = at('cache', 'stickpin', 'images');
    const documents = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
    const limit = ['--cache-size', `${bytes + documents - 1}B`];
    // A plan removes nothing.
    expect(await create('two', '--dry-run', ...limit)).toMatchObject({ exitCode: 0 });
    expect(existsSync(old)).toBe(true);
    const only = ['--image', `quay.example.com/x:1=docker://${registry.host}/shop/db:1`, '--referrers', 'none'];
    const draft = ['--name', 'a', '--version', '1.0.0', '--arch', 'amd64', '--sequence', '1', '--out', at('x')];
    const env = { HOME: root, XDG_CACHE_HOME: at('cache') };
    expect(await runCommand(['bundle', 'create', ...draft, ...only, ...limit], { env })).toMatchObject({ exitCode: 0 });
    expect(existsSync(old)).toBe(false);
    expect(existsSync(cached(layerOf(images.db)))).toBe(true);
  });

  it('removes no file of others: neither in a folder that is no cache nor behind a link', async () => {
    mkdirSync(at('photos', 'images'), { recursive: true });
    writeFileSync(at('photos', 'images', 'holiday.jpg'), 'x'.repeat(1_000));
    const foreign = await create('one', '--cache', at('photos'), '--cache-size', '1B');
    expect(foreign).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('is no cache of stickpin') });
    expect(existsSync(at('photos', 'images', 'holiday.jpg'))).toBe(true);

    await create('two');
    rmSync(at('cache', 'stickpin', 'images'), { recursive: true });
    mkdirSync(at('victim'));
    const victim = at('victim', 'a'.repeat(64));
    writeFileSync(victim, 'x'.repeat(1_000));
    symlinkSync(at('victim'), at('cache', 'stickpin', 'images'));
    const linked = await create('three', '--cache-size', '1B');
    expect(linked).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('is not a folder') });
    expect(existsSync(victim)).toBe(true);

    rmSync(at('cache', 'stickpin', 'images'));
    chmodSync(at('cache', 'stickpin', 'blobs'), 0o777);
    expect((await create('four')).stderr).toContain('other users may write to');
    writeFileSync(at('cache', 'stickpin', 'own'), '');
    expect(await create('five', '--cache', '')).toMatchObject({ exitCode: 2 });
  });

  it('makes the bundle without a cache that cannot be used, and says so once', async () => {
    writeFileSync(at('file'), '');
    const { exitCode, stderr } = await create('one', '--cache', at('file'));
    expect(exitCode, stderr).toBe(0);
    expect(stderr.match(/the cache .*\/file is not used: .*--no-cache/g)).toHaveLength(1);
  });

  it('is not asked where skopeo demands signatures, or under another policy', async () => {
    await create('one');
    const rules = [{ type: 'signedBy', keyType: 'GPGKeys', keyPath: '/nonexistent' }];
    policy({ default: [{ type: 'insecureAcceptAnything' }], transports: { docker: { [registry.host]: rules } } });
    expect(await create('two')).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(/nonexistent|signature/i) });
    policy({
      default: [{ type: 'insecureAcceptAnything' }],
      transports: { docker: { [registry.host]: [{ type: 'reject' }] } },
    });
    expect(await create('two')).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('rejected by policy') });
  });
});

describe.runIf(have('skopeo'))('bundle create --dry-run', () => {
  const plan = async (...more: string[]) => {
    const { exitCode, stdout, stderr } = await create('out', '--dry-run', '--json', ...more);
    expect(exitCode, stderr).toBe(0);
    const document = JSON.parse(stdout);
    expect(v.safeParse(FACTORY_DOCUMENTS['bundle-create-plan'], document).issues).toBeUndefined();
    return document;
  };
  const left = () => readdirSync(root).filter((name) => !['.config', '.local', 'cache'].includes(name));

  it('lists the images without their layers, and writes nothing', async () => {
    const { images: planned, ...others } = await plan(
      '--key',
      'absent.key',
      '--signer',
      'sign --pin',
      '--signer-key',
      'absent.pub',
    );
    expect(blobRequests().filter((digest) => digest === shared.digest)).toEqual([]);
    expect(left()).toEqual([]);
    const bytes = (image: SampleImage) => image.layers.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    expect(planned).toEqual(
      Object.entries(images).map(([name, image]) => ({
        reference: `${registry.host}/shop/${name}@${image.top.digest}`,
        tags: [`${registry.host}/shop/${name}:1`],
        platform: 'linux/amd64',
        layers: 2,
        sizeBytes: bytes(image),
        fetchBytes: bytes(image) + image.config.sizeBytes,
        inBaseBytes: 0,
      })),
    );
    expect(others.signing).toEqual({ keys: ['absent.key'], signers: ['sign --pin'] });
    expect(others.fetchBytes).toBe(planned[0].fetchBytes + planned[1].fetchBytes);

    await create('out');
    const blobs = at('out', 'blobs', 'sha256');
    const total = readdirSync(blobs).reduce((sum, name) => sum + statSync(join(blobs, name)).size, 0);
    const contents = JSON.parse(readFileSync(join(at('out'), 'bundle.dsse.json'), 'utf8')).payload;
    const { size } = JSON.parse(Buffer.from(contents, 'base64').toString()).contents;
    expect(others.bundleBytes).toBe(total - size);
  });

  it('says what the cache has and a base keeps', async () => {
    await create('base');
    const { images: planned, fetchBytes, bundleBytes } = await plan('--base', at('base'));
    expect(planned).toMatchObject([
      { fetchBytes: 0, inBaseBytes: planned[0].sizeBytes },
      { fetchBytes: 0, inBaseBytes: planned[1].sizeBytes },
    ]);
    expect(fetchBytes).toBe(0);
    expect(bundleBytes).toBeLessThan(10 * KIB);
    expect(left()).toEqual(['base']);
  });

  it('names everything that is wrong, as without it', async () => {
    const { exitCode, stderr } = await create('out', '--dry-run', '--image', `${registry.host}/shop/absent:1`);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining('shop/absent:1')]);
    expect(left()).toEqual([]);
  });

  it('knows charts and images in the form of Docker', async () => {
    const chart = { mediaType: 'application/vnd.cncf.helm.config.v1+json', bytes: Buffer.from('{"name":"shop"}') };
    const artifact = inForm(make('chart'), {
      config: chart,
      layer: 'application/vnd.cncf.helm.chart.content.v1.tar+gzip',
    });
    const docker = inForm(make('docker'), { layer: 'application/vnd.docker.image.rootfs.diff.tar.gzip' });
    registry.add('charts/shop', artifact, ['1']);
    registry.add('shop/docker', docker, ['1']);
    const more = ['--artifact', `${registry.host}/charts/shop:1`, '--image', `${registry.host}/shop/docker:1`];
    const { images: planned, artifacts } = await plan(...more);
    expect(planned.at(-1)).toMatchObject({ reference: `${registry.host}/shop/docker@${docker.top.digest}`, layers: 2 });
    expect(artifacts).toMatchObject([{ reference: `${registry.host}/charts/shop@${artifact.top.digest}`, layers: 2 }]);
  });

  it('knows images of archives, which no registry sends', async () => {
    writeOciLayout(at('layout'), [{ image: make('file'), names: ['quay.example.com/shop/file:1'] }]);
    const { images: planned, bundleBytes } = await plan('--archive', at('layout'));
    expect(planned.at(-1)).toMatchObject({ tags: ['quay.example.com/shop/file:1'], layers: 2, inBaseBytes: 0 });
    expect(planned.at(-1)).not.toHaveProperty('fetchBytes');
    expect(bundleBytes).toBeGreaterThan(planned.at(-1).sizeBytes);
    expect(left()).toEqual(['layout']);
  });

  it('leaves a target alone, and needs no other folder than its own', async () => {
    mkdirSync(at('out'));
    await plan();
    expect(readdirSync(at('out'))).toEqual([]);
    await create(join('new', 'folder', 'out'), '--dry-run');
    expect(left()).toEqual(['out']);
    const { exitCode, stdout } = await create('both', '--dry-run', '--arch', 'amd64,arm64', '--json');
    expect([exitCode, stdout]).toEqual([1, expect.stringContaining('error')]);
    expect(left()).toEqual(['out']);
  });

  it('says it in words', async () => {
    const { stdout } = await create('out', '--dry-run');
    const [first, second] = Object.values(images);
    expect(stdout.replaceAll(registry.host, 'HOST').replaceAll(root, 'ROOT')).toBe(
      [
        'shop 1.0.0 for amd64 would be in ROOT/out:',
        `  HOST/shop/web:1: ${first?.top.digest}, linux/amd64, 2 layers of 217 KiB, 217 KiB to fetch`,
        `  HOST/shop/db:1: ${second?.top.digest}, linux/amd64, 2 layers of 217 KiB, 217 KiB to fetch`,
        'To fetch: 435 KiB. The bundle: 236 KiB.',
        'It would not be signed.',
        'Nothing was written.',
        '',
      ].join('\n'),
    );
  });
});
