import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { openBundle } from '../../../src/bundle/read/open-bundle.ts';
import { readUntrusted } from '../../../src/bundle/verify/judge-bundle.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import { indexOver, type SampleImage, sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { sampleArtifact, sampleReferrer, sampleSignature, textBlob } from '../../support/bundles/sample-signature.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have } from '../../support/requirements.ts';
import { type SourceRegistry, startSourceRegistry } from '../../support/source-registry.ts';

const { signal } = new AbortController();
const root = folderForEach();
const at = (name: string) => join(root, name);
const REPOSITORY = 'quay.example.com/edge/app';
const INDEX = 'application/vnd.oci.image.index.v1+json';
const SPDX = 'application/spdx+json';
const MiB = 1024 * 1024;

const app = sampleImage({ seed: 'app', architecture: 'amd64' });
const good = sampleReferrer(app.manifest);
const subject = { mediaType: app.manifest.mediaType, digest: app.manifest.digest, size: app.manifest.sizeBytes };
const listTag = ({ manifest }: SampleImage) => manifest.digest.replace(':', '-');
const large = textBlob(SPDX, ' '.repeat(5 * MiB));
/** Its manifest says another size of its layer. */
const lying = (() => {
  const layer = textBlob(SPDX, 'lie');
  const said = sampleArtifact([{ ...layer, sizeBytes: 4 }], { subject, artifactType: SPDX });
  return { ...said, blobs: [...said.blobs.slice(0, -1), layer] };
})();
const oversized = sampleArtifact([large], { subject, artifactType: SPDX });
const foreign = sampleArtifact([textBlob('application/x-unknown', '?')], { subject, artifactType: 'unknown' });
const cut = textBlob(app.manifest.mediaType, '{"schemaVersion":2,"artifactType":"application/spdx+json","layers":[');
const malformed: SampleImage = { ...good, manifest: cut, top: cut, blobs: [cut] };

function listOf(...images: readonly SampleImage[]): SampleImage {
  const manifests = images.map(({ top: { mediaType, digest, sizeBytes: size } }) => ({ mediaType, digest, size }));
  const top = textBlob(INDEX, JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests }));
  return { ...good, top, blobs: [top] };
}

/** A bundle is made and whole; what is attached to each image, by tag, and all warnings. */
async function create(...images: string[]) {
  const options = { referrers: 'all', access: { tlsVerify: false } } as const;
  const made = await createBundle(sampleCreateOptions(at('bundle'), images, options), signal);
  expect((await readUntrusted(openBundle(made.path), signal)).missing).toEqual([]);
  const attached = made.contents.images.map((image) =>
    Object.fromEntries((image.attached ?? []).map(({ tag, blobs }) => [tag, blobs.map(({ digest }) => digest)])),
  );
  return { attached, warnings: made.warnings };
}
const digestsOf = (...images: readonly SampleImage[]) => [
  ...new Set(images.flatMap(({ blobs }) => blobs.map(({ digest }) => digest))),
];
const leftOut = ({ top }: SampleImage, why: string) =>
  expect.stringMatching(new RegExp(`^${REPOSITORY}@${subject.digest}: referrer ${top.digest} is left out: .*${why}`));

describe('an odd referrer in a layout', () => {
  const source = `${REPOSITORY}:1=oci:`;
  const layoutOf = (...more: { image: SampleImage; names: string[] }[]) => {
    writeOciLayout(at('layout'), [{ image: app, names: ['app'] }, ...more]);
    return `${source}${at('layout')}:app`;
  };

  it('is left out, and the others travel', async () => {
    const odd = [lying, oversized, malformed].map((image, nr) => ({ image, names: [`odd${nr}`] }));
    const { attached, warnings } = await create(
      layoutOf(...odd, { image: foreign, names: ['x'] }, { image: good, names: ['good'] }),
    );
    expect(attached).toEqual([{ [listTag(app)]: digestsOf(foreign, good) }]);
    expect(warnings).toEqual([leftOut(lying, 'is damaged'), leftOut(oversized, '5242880 bytes')]);
  });

  it('does not stop it under the tags of attestations, of SBOMs and of the list either', async () => {
    const tag = app.manifest.digest.replace(':', '-');
    const { attached, warnings } = await create(
      layoutOf(
        { image: oversized, names: [`${tag}.sbom`] },
        { image: listOf(good), names: [`${tag}.att`] },
        { image: listOf(good), names: [`${tag}.sig`] },
        { image: { ...malformed, top: { ...cut, mediaType: INDEX } }, names: [tag] },
        { image: good, names: ['good'] },
      ),
    );
    expect(attached).toEqual([{ [tag]: digestsOf(good) }]);
    expect(warnings).toEqual([
      expect.stringMatching(/\.sig is left out: it is an index/),
      expect.stringMatching(/\.att is left out: it is an index/),
      expect.stringMatching(/\.sbom is left out: .*5242880 bytes/),
      expect.stringMatching(/-[0-9a-f]{64} is left out: .*is not JSON/),
      leftOut(oversized, '5242880 bytes'),
    ]);
  });

  it('is left out when there are too many blobs', async () => {
    const many = Array.from({ length: 50 }, (_, nr) => sampleArtifact([textBlob(SPDX, `${nr}`)], { subject }));
    const crowd = sampleArtifact(
      Array.from({ length: 130 }, (_, nr) => textBlob(SPDX, `of many ${nr}`)),
      { subject, artifactType: SPDX },
    );
    const { attached, warnings } = await create(
      layoutOf({ image: crowd, names: ['crowd'] }, ...many.map((image, nr) => ({ image, names: [`n${nr}`] }))),
    );
    const blobs = Object.values(attached[0] ?? {}).flat();
    expect(blobs.length).toBeLessThanOrEqual(128);
    expect(warnings[0]).toEqual(leftOut(crowd, '132 blobs, and 128 are allowed'));
    expect(blobs.length + 2 * (warnings.length - 1)).toBeGreaterThan(100);
  });
});

describe('images of one repository with one manifest in both indexes', () => {
  const arm = sampleImage({ seed: 'arm', architecture: 'arm64' });
  const indexes = [indexOver({ amd64: app }), indexOver({ amd64: app, arm64: arm })];
  const [one, two] = [sampleReferrer(app.manifest, 'application/one'), sampleReferrer(app.manifest, 'application/two')];
  const signatures = ['x', 'y'].map((by) => sampleSignature(app.manifest.digest, REPOSITORY, () => Buffer.from(by)));

  it('share what is attached to it, also where their sources differ', async () => {
    const sources = indexes.map((image, nr) => {
      const signature = signatures[nr] ?? good;
      writeOciLayout(at(`layout${nr}`), [
        { image, names: ['app'] },
        { image: signature, names: [`${listTag(app)}.sig`] },
        { image: nr === 0 ? one : two, names: ['other'] },
      ]);
      return `${REPOSITORY}:${nr}=oci:${at(`layout${nr}`)}:app`;
    });
    const { attached, warnings } = await create(...sources);
    const [first] = signatures;
    const shared = {
      [`${listTag(app)}.sig`]: first?.blobs.slice(1).map(({ digest }) => digest),
      [listTag(app)]: digestsOf(one, two),
    };
    expect(attached).toEqual([shared, shared]);
    expect(warnings.filter((line) => line.includes('.sig is sha256:'))).toHaveLength(1);
  });
});

describe('an image with many manifests', () => {
  it('has at most 12 tags attached, signatures first', async () => {
    const variants = [undefined, 'v2', 'v3', 'v4'].map((variant) => ({
      variant,
      image: sampleImage({ seed: `${variant}`, architecture: 'amd64' }),
    }));
    const manifests = variants.map(({ variant, image: { manifest } }) => ({
      mediaType: manifest.mediaType,
      digest: manifest.digest,
      size: manifest.sizeBytes,
      platform: { os: 'linux', architecture: 'amd64', variant },
    }));
    const top = textBlob(INDEX, JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests }));
    const image = { ...app, top, blobs: [top, ...variants.flatMap((one) => one.image.blobs)] };
    const subjects = [top, ...variants.map((one) => one.image.manifest)];
    const tags = subjects.flatMap(({ digest }) =>
      ['sig', 'att', 'sbom'].map((kind) => `${digest.replace(':', '-')}.${kind}`),
    );
    writeOciLayout(at('layout'), [
      { image, names: ['app'] },
      ...tags.map((tag) => ({ image: sampleArtifact([textBlob('text/plain', tag)]), names: [tag] })),
    ]);
    const { attached, warnings } = await create(`${REPOSITORY}:1=oci:${at('layout')}:app`);
    const kept = Object.keys(attached[0] ?? {});
    expect(kept).toHaveLength(12);
    expect(kept.filter((tag) => tag.endsWith('.sig'))).toHaveLength(5);
    expect(warnings).toHaveLength(3);
  });
});

describe.runIf(have('skopeo'))('an odd referrer in a registry', () => {
  let registry: SourceRegistry;
  beforeEach(async () => {
    registry = await startSourceRegistry();
    const configuration = at('.config/containers');
    mkdirSync(configuration, { recursive: true });
    writeFileSync(
      join(configuration, 'registries.conf'),
      `[[registry]]\nlocation = "${registry.host}"\ninsecure = true\n`,
    );
    vi.stubEnv('HOME', root);
    registry.add('edge/app', app, ['1']);
  });
  afterEach(async () => {
    vi.unstubAllEnvs();
    await registry.close();
  });
  const source = () => `${REPOSITORY}:1=docker://${registry.host}/edge/app:1`;

  it('is left out, and what is too large is not copied', async () => {
    for (const image of [lying, oversized, foreign, good]) registry.add('edge/app', image);
    registry.listReferrers();
    registry.add('edge/app', oversized, [`${listTag(app)}.sbom`]);
    const signatures = listOf(good);
    registry.add('edge/app', signatures, [`${listTag(app)}.sig`]);
    const { attached, warnings } = await create(source());
    expect(attached).toEqual([{ [listTag(app)]: digestsOf(foreign, good) }]);
    expect(registry.getCount(large.digest)).toBe(0);
    expect(warnings).toEqual(
      expect.arrayContaining([
        leftOut(oversized, '5242880 bytes'),
        leftOut(lying, ''),
        expect.stringMatching(/\.sbom is left out: .*5242880 bytes/),
        expect.stringMatching(new RegExp(`@${signatures.top.digest} is left out: it is an index`)),
      ]),
    );
  });

  it('is left out of a list under the referrers tag, which may be malformed itself', async () => {
    for (const image of [lying, malformed, good]) registry.add('edge/app', image);
    registry.drop(foreign.top.digest);
    const list = listOf(lying, malformed, foreign, good);
    registry.add('edge/app', list, [listTag(app)]);
    const { attached, warnings } = await create(source());
    expect(attached).toEqual([{ [listTag(app)]: digestsOf(good) }]);
    expect(warnings).toEqual(
      expect.arrayContaining([leftOut(malformed, ''), leftOut(foreign, 'not there'), leftOut(lying, '')]),
    );
    registry.add('edge/app', { ...malformed, top: { ...cut, mediaType: INDEX } }, [listTag(app)]);
    await expect(createBundle(sampleCreateOptions(at('again'), [source()]), signal)).resolves.toMatchObject({
      warnings: expect.arrayContaining([expect.stringContaining(`${subject.digest} is left out`)]),
    });
  });
});
