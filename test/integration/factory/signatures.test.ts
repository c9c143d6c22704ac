import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openBundle } from '../../../src/bundle/read/open-bundle.ts';
import { readUntrusted } from '../../../src/bundle/verify/judge-bundle.ts';
import { catalogOf } from '../../../src/domain/decide/catalog.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import type { CreateOptions } from '../../../src/factory/create-options.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { createRegistry, type Registry } from '../../../src/registry/server.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import {
  digestOf,
  type SampleImage,
  sampleImage,
  sampleLayer,
  writeOciLayout,
} from '../../support/bundles/sample-image.ts';
import { sampleReferrer, sampleSignature, signatureTag } from '../../support/bundles/sample-signature.ts';
import { judge, observation, POLICY, stored, verified } from '../../support/daemon/scenario.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { coded } from '../../support/matching.ts';
import { createRecordingLog } from '../../support/recording-log.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const { signal } = new AbortController();
const run = promisify(execFile);
const root = folderForEach();
let layout: string;
beforeEach(() => {
  layout = join(root, 'layout');
});

const app = sampleImage({ seed: 'app', architecture: 'amd64', withIndex: true });
const ofIndex = sampleSignature(app.top.digest);
const ofManifest = sampleSignature(app.manifest.digest);
const tagOfIndex = signatureTag(app.top.digest);
const tagOfManifest = signatureTag(app.manifest.digest);
const blobName = (digest: string) => digest.slice('sha256:'.length);
const inBundle = (path: string, digest: string) => join(path, 'blobs', 'sha256', blobName(digest));

function create(images: readonly string[], more: Partial<CreateOptions> = {}) {
  return createBundle(sampleCreateOptions(join(root, 'bundle'), images, more), signal);
}

/** What `contents.json` is to say of a signature. */
const attachedAs = (tag: string, { manifest, blobs }: SampleImage) => ({
  tag,
  digest: manifest.digest,
  size: manifest.sizeBytes,
  mediaType: manifest.mediaType,
  blobs: blobs.slice(1).map(({ digest, sizeBytes }) => ({ digest, size: sizeBytes })),
});

describe('sigstore signatures in an OCI layout', () => {
  const source = 'quay.example.com/edge/app:1=oci:';
  const named = [{ image: app, names: ['app'] }];

  it.each([
    ['the tag', (tag: string) => tag],
    ['the full name', (tag: string) => `quay.example.com/edge/app:${tag}`],
    ['the name that it had elsewhere', (tag: string) => `registry.example.org/app:${tag}`],
  ])('travel with the image under %s', async (_, nameOf) => {
    writeOciLayout(layout, [
      ...named,
      { image: ofIndex, names: [nameOf(tagOfIndex)] },
      { image: ofManifest, names: [nameOf(tagOfManifest)] },
      { image: sampleSignature(`sha256:${'0'.repeat(64)}`), names: [`sha256-${'0'.repeat(64)}.sig`] },
    ]);
    const { contents, payload, path } = await create([`${source}${layout}:app`]);
    expect(contents.images[0]?.attached).toEqual([
      attachedAs(tagOfIndex, ofIndex),
      attachedAs(tagOfManifest, ofManifest),
    ]);
    expect(contents.layers).toHaveLength(1);
    const blobs = [...app.blobs, ...ofIndex.blobs, ...ofManifest.blobs];
    expect(payload.totals.blobs).toBe(new Set(blobs.map(({ digest }) => digest)).size);
    const { missing, documents } = await readUntrusted(openBundle(path), signal);
    expect(missing).toEqual([]);
    expect(documents).toEqual(expect.arrayContaining(ofIndex.blobs.map(({ digest }) => digest)));
  });

  it('prefer the repository of the image', async () => {
    const other = sampleSignature(app.top.digest, 'registry.example.org/app');
    writeOciLayout(layout, [
      ...named,
      { image: other, names: [`registry.example.org/app:${tagOfIndex}`] },
      { image: ofIndex, names: [`quay.example.com/edge/app:${tagOfIndex}`] },
    ]);
    const { contents } = await create([`${source}${layout}:app`]);
    expect(contents.images[0]?.attached).toEqual([attachedAs(tagOfIndex, ofIndex)]);
  });

  it('are copied from another bundle', async () => {
    writeOciLayout(layout, [...named, { image: ofIndex, names: [tagOfIndex] }]);
    const { path } = await create([`${source}${layout}:app`]);
    const again = await create([`${source}${path}:quay.example.com/edge/app:1`], { out: join(root, 'again') });
    expect(again.contents.images[0]?.attached).toEqual([attachedAs(tagOfIndex, ofIndex)]);
  });

  it('are reported by verify when they are missing or damaged', async () => {
    writeOciLayout(layout, [...named, { image: ofIndex, names: [tagOfIndex] }]);
    const { path } = await create([`${source}${layout}:app`]);
    const [, config, signed] = ofIndex.blobs;
    rmSync(inBundle(path, config?.digest ?? ''));
    const file = inBundle(path, signed?.digest ?? '');
    writeFileSync(file, readFileSync(file).reverse());
    expect((await readUntrusted(openBundle(path), signal)).missing).toEqual([
      { digest: config?.digest, why: 'absent' },
      { digest: signed?.digest, why: 'damaged' },
    ]);
  });

  it('lie on every volume', async () => {
    const layers = ['a', 'b'].map((seed) => sampleLayer({ seed, sizeBytes: 64 * 1024 }));
    const large = sampleImage({ seed: 'large', architecture: 'amd64', layers });
    const signature = sampleSignature(large.top.digest);
    writeOciLayout(layout, [
      { image: large, names: ['app'] },
      { image: signature, names: [signatureTag(large.top.digest)] },
    ]);
    const { volumes, path } = await create([`${source}${layout}:app`], { volumeBytes: 128 * 1024 });
    for (let at = 1; at <= (volumes ?? 0); at += 1) {
      expect(readdirSync(join(path, String(at), 'blobs', 'sha256'))).toEqual(
        expect.arrayContaining(signature.blobs.map(({ digest }) => blobName(digest))),
      );
    }
    expect(volumes).toBe(2);
  });

  it('are refused when the manifest under their name is damaged', async () => {
    writeOciLayout(layout, [...named, { image: ofIndex, names: [tagOfIndex] }], {
      omit: [ofIndex.blobs[2]?.digest ?? ''],
    });
    await expect(create([`${source}${layout}:app`])).rejects.toMatchObject({ code: 'bundle/source' });
  });
});

const bundleOfIndex = sampleReferrer(app.top);
const sbom = sampleReferrer(app.manifest, 'application/spdx+json');
const listTag = (subject: string) => subject.replace(':', '-');

/** What `contents.json` says of the index of referrers of `subject`. */
const listedFor = (subject: string, ...referrers: SampleImage[]) =>
  expect.objectContaining({
    tag: listTag(subject),
    mediaType: 'application/vnd.oci.image.index.v1+json',
    blobs: referrers.flatMap(({ blobs }) => blobs.map(({ digest, sizeBytes }) => ({ digest, size: sizeBytes }))),
  });

/** An index as cosign writes it where a registry lists no referrers. */
function listOf(referrer: SampleImage): SampleImage {
  const mediaType = 'application/vnd.oci.image.index.v1+json';
  const { mediaType: type, digest, sizeBytes: size } = referrer.manifest;
  const bytes = Buffer.from(
    JSON.stringify({ schemaVersion: 2, mediaType, manifests: [{ mediaType: type, digest, size }] }),
  );
  const top = { mediaType, digest: digestOf(bytes), sizeBytes: bytes.length, bytes };
  return { ...referrer, top, blobs: [top, ...referrer.blobs] };
}

describe('what refers to an image by its subject', () => {
  beforeEach(() => {
    writeOciLayout(layout, [
      { image: app, names: ['app'] },
      { image: bundleOfIndex, names: ['any'] },
      { image: sbom, names: ['other'] },
    ]);
  });
  const source = () => `quay.example.com/edge/app:1=oci:${layout}:app`;

  it.each([
    ['signatures', [listedFor(app.top.digest, bundleOfIndex)]],
    ['all', [listedFor(app.top.digest, bundleOfIndex), listedFor(app.manifest.digest, sbom)]],
    ['none', undefined],
  ] as const)('travels as --referrers %s says, and the bundle is whole', async (referrers, attached) => {
    const { contents, path } = await create([source()], { referrers });
    expect(contents.images[0]?.attached).toEqual(attached);
    expect((await readUntrusted(openBundle(path), signal)).missing).toEqual([]);
  });

  it('is listed by the registry of a node, with its filter, and under the referrers tag', async () => {
    const made = await create([source()], { referrers: 'all' });
    const observed = observation({});
    const reader = openBundle(made.path);
    const registry = createRegistry({
      source: { ...reader, onChange: () => () => undefined },
      clock: systemClock,
      graceMs: 0,
      token: undefined,
      log: createRecordingLog(),
      admit: async () => 'anybody',
    });
    registry.setCatalog(catalogOf(observed, judge(observed, [stored({ ...verified(), ...made })]).assessment, POLICY));
    const authority = await registry.listen({ host: '127.0.0.1', port: 0 });
    const base = `http://${authority}/v2/quay.example.com/edge/app`;
    const list = async (path: string) =>
      ((await (await fetch(`${base}/${path}`)).json()) as { manifests: unknown[] }).manifests;
    const entry = {
      mediaType: sbom.manifest.mediaType,
      digest: sbom.manifest.digest,
      size: sbom.manifest.sizeBytes,
      artifactType: 'application/spdx+json',
      annotations: { 'org.opencontainers.image.created': '2026-01-01T00:00:00Z' },
    };
    expect(await list(`referrers/${app.manifest.digest}`)).toEqual([entry]);
    expect(await list(`manifests/${listTag(app.manifest.digest)}`)).toEqual([entry]);
    expect(await list(`referrers/${app.manifest.digest}?artifactType=other`)).toEqual([]);
    expect(await list(`referrers/${app.config.digest}`)).toEqual([]);
    const layer = sbom.blobs[2];
    const sent = await fetch(`${base}/blobs/${layer?.digest}`);
    expect(Buffer.from(await sent.arrayBuffer())).toEqual(layer?.bytes);
    await registry.close();
  });
});

describe.runIf(have('skopeo'))('sigstore signatures beside an image in a registry', () => {
  let registry: SourceRegistry;
  beforeEach(async () => {
    registry = await startSourceRegistry();
    const configuration = join(root, '.config', 'containers');
    mkdirSync(configuration, { recursive: true });
    const insecure = `[[registry]]\nlocation = "${registry.host}"\ninsecure = true\n`;
    writeFileSync(join(configuration, 'registries.conf'), insecure);
    vi.stubEnv('HOME', root);
    registry.add('edge/app', app, ['1']);
    registry.add('edge/app', ofIndex, [tagOfIndex]);
    registry.add('edge/app', ofManifest, [tagOfManifest]);
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await registry.close();
  });

  const source = () => `quay.example.com/edge/app:1=docker://${registry.host}/edge/app:1`;

  it('travel with it byte by byte', async () => {
    const { contents, path } = await create([source()]);
    expect(contents.images[0]?.attached).toEqual([
      attachedAs(tagOfIndex, ofIndex),
      attachedAs(tagOfManifest, ofManifest),
    ]);
    for (const { digest, bytes } of [...ofIndex.blobs, ...ofManifest.blobs]) {
      expect(readFileSync(inBundle(path, digest))).toEqual(bytes);
    }
  });

  it('travel although policy.json requires signatures for all images', async () => {
    const policy = join(root, '.config', 'containers', 'policy.json');
    const transports = { docker: { [`${registry.host}/edge/app@${ofIndex.manifest.digest}`]: [{ type: 'reject' }] } };
    writeFileSync(policy, JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }], transports }));
    expect((await create([source()])).contents.images[0]?.attached).toHaveLength(2);
  });

  it('are not asked for with --referrers none', async () => {
    const { contents } = await create([source()], { referrers: 'none' });
    expect(contents.images[0]).not.toHaveProperty('attached');
    expect(registry.requests.some(({ path }) => path.endsWith('.sig'))).toBe(false);
  });

  it.each(['its API', 'the referrers tag'])('travel as referrers too, listed by %s', async (by) => {
    registry.add('edge/app', bundleOfIndex);
    registry.add('edge/app', sbom);
    if (by === 'its API') registry.listReferrers();
    else registry.add('edge/app', listOf(bundleOfIndex), [listTag(app.top.digest)]);
    const { contents, warnings } = await create([source()], { access: { tlsVerify: false } });
    expect(contents.images[0]?.attached).toEqual(
      expect.arrayContaining([attachedAs(tagOfIndex, ofIndex), listedFor(app.top.digest, bundleOfIndex)]),
    );
    expect(contents.images[0]?.attached).toHaveLength(3);
    expect(warnings.filter((line) => line.includes('referrers'))).toEqual([]);
  });

  it('of a registry that can not be asked for a list give a warning', async () => {
    const { warnings } = await create([source()]);
    expect(warnings.filter((line) => line.includes('no list of referrers'))).toHaveLength(1);
  });

  it('are an error when the registry fails', async () => {
    registry.breakDown(ofIndex.manifest.digest, { kind: 'status', status: 403 });
    await expect(create([source()])).rejects.toMatchObject(
      coded('bundle/skopeo', `the signature of quay.example.com/edge/app:1 at docker://${registry.host}`),
    );
  });

  describe('of a bundle that the daemon serves', () => {
    const TOKEN = '0123456789abcdef0123456789abcdef';
    let served: Registry;
    afterEach(() => served.close());

    it('are pulled by skopeo under their tag', async () => {
      const made = await create([source()]);
      const bundle = stored({ ...verified(), ...made });
      const observed = observation({});
      const reader = openBundle(made.path);
      served = createRegistry({
        source: { ...reader, onChange: () => () => undefined },
        clock: systemClock,
        graceMs: 0,
        token: TOKEN,
        log: createRecordingLog(),
        admit: async () => 'anybody',
      });
      served.setCatalog(catalogOf(observed, judge(observed, [bundle]).assessment, POLICY));
      const authority = await served.listen({ host: '127.0.0.1', port: 0 });
      const repository = `docker://${authority}/${TOKEN}/quay.example.com/edge/app`;
      const copied = join(root, 'copied');
      await run('skopeo', ['copy', '--src-tls-verify=false', `${repository}:${tagOfManifest}`, `dir:${copied}`]);
      for (const { digest, bytes } of ofManifest.blobs.slice(1)) {
        expect(readFileSync(join(copied, blobName(digest)))).toEqual(bytes);
      }
      expect(readFileSync(join(copied, 'manifest.json'))).toEqual(ofManifest.manifest.bytes);
    });
  });
});
