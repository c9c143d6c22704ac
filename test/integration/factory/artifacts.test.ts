import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { parseImageRequest } from '../../../src/bundle/image-request.ts';
import { openBundle } from '../../../src/bundle/read/open-bundle.ts';
import { createBundle } from '../../../src/factory/create-bundle.ts';
import type { CreateOptions } from '../../../src/factory/create-options.ts';
import { takeEnvelope } from '../../../src/factory/payload/take-envelope.ts';
import { formatBytes } from '../../../src/platform/sizes.ts';
import { sampleCreateOptions } from '../../support/bundles/create-options.ts';
import { readBundles } from '../../support/bundles/read-bundles.ts';
import { sampleKey, trustIn } from '../../support/bundles/sample-bundle.ts';
import { sampleArtifact, sampleImage, sampleLayer, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { runCommand } from '../../support/run-command.ts';

const { signal } = new AbortController();
const root = folderForEach();
const layer = sampleLayer({ seed: 'web' });
const web = sampleImage({ seed: 'web', architecture: 'amd64', layers: [layer] });
const indexed = sampleImage({ seed: 'indexed', architecture: 'amd64', withIndex: true });
const model = sampleArtifact({ files: { 'weights.bin': Buffer.alloc(9_000, 'w'), 'README.md': Buffer.from('small') } });
/** Its only file is the empty config, too (image-spec 1.1, "Guidance for an empty descriptor"). */
const empty = sampleArtifact({ files: { nothing: Buffer.from('{}') } });
/** It has a layer of the image among its files. */
const sharing = sampleArtifact({ files: { 'layer.tar.gz': layer.bytes } });
/** Its type would reach terminals. */
const painted = sampleArtifact({ files: { a: Buffer.from('a') }, artifactType: '\u001b[31mvnd.example\nmodel' });
const untyped = sampleArtifact({ files: { a: Buffer.from('b') }, artifactType: '' });
let layout: string;

beforeEach(() => {
  layout = join(root, 'layout');
  writeOciLayout(
    layout,
    Object.entries({ web, indexed, model, empty, sharing, painted, untyped }).map(([name, image]) => ({
      image,
      names: [name],
    })),
  );
});

const from = (name: string, reference = `models.example.com/${name}:1`) =>
  parseImageRequest(`${reference}=oci:${layout}:${name}`);
const make = (artifacts: readonly ReturnType<typeof from>[], more: Partial<CreateOptions> = {}) =>
  createBundle(
    sampleCreateOptions(join(root, 'out', 'bundle'), [`quay.example.com/web:1=oci:${layout}:web`], {
      artifacts,
      ...more,
    }),
    signal,
  );

describe('artifacts of a new bundle', () => {
  it('have their blobs as layers that nothing unpacks, and count in its totals', async () => {
    const { contents, payload, resolved } = await make([from('model'), from('model', 'models.example.com/model:2')]);
    const [weights, readme] = model.layers;
    expect(contents.artifacts).toEqual([
      {
        reference: `models.example.com/model@${model.top.digest}`,
        digest: model.top.digest,
        mediaType: model.top.mediaType,
        tags: ['models.example.com/model:1', 'models.example.com/model:2'],
        type: 'application/vnd.example.model',
        config: { digest: model.config.digest, size: 2 },
        layers: [1, 2],
      },
    ]);
    expect(contents.layers[1]).toEqual({
      digest: weights?.digest,
      diffId: weights?.digest,
      sizeBytes: 9_000,
      uncompressedBytes: 9_000,
      diskBytes: 12_288,
      inodes: 1,
    });
    expect(contents.layers[2]?.digest).toBe(readme?.digest);
    expect(payload.totals).toMatchObject({ images: 1, blobs: 7 });
    expect(resolved.get('models.example.com/model:2')).toBe(model.top.digest);
  });

  it('may have a layer of an image, or a config that is their only layer', async () => {
    const { contents } = await make([from('sharing'), from('empty')]);
    expect(contents.artifacts?.map(({ layers }) => layers)).toEqual([[0], [1]]);
    expect(contents.layers[0]).toMatchObject({ diffId: layer.diffId, uncompressedBytes: layer.uncompressedBytes });
  });

  it('have the type of their config where they have none, and no control characters in it', async () => {
    const { contents } = await make([from('painted'), from('untyped')]);
    const types = contents.artifacts?.map(({ type }) => type);
    expect(types).toEqual(['[31mvnd.example model', 'application/vnd.oci.empty.v1+json']);
  });

  it('keep a tag that an image would get from a longer one', async () => {
    const images = [parseImageRequest(`quay.example.com/web:1.2.3-rev2-b3=oci:${layout}:web`)];
    const { contents } = await make([from('model', 'quay.example.com/web:1.2.3')], { images });
    const tags = ['quay.example.com/web:1.2.3-rev2-b3', 'quay.example.com/web:1.2.3-rev2'];
    expect(contents.images[0]?.tags).toEqual(tags);
  });

  it('have their config on each volume, also if it is a layer, too', async () => {
    const { volumes } = await make([from('empty'), from('model')], { volumeBytes: 61_440 });
    expect(volumes).toBe(2);
    const folders = [1, 2].map((at) => readdirSync(join(root, 'out', 'bundle', `${at}`, 'blobs/sha256')));
    expect(folders.map((names) => names.includes(empty.config.digest.slice(7)))).toEqual([true, true]);
  });

  it('are all in a delta, whatever its base has', async () => {
    const key = sampleKey();
    const base = await make([from('sharing')], { out: join(root, 'base'), keys: [key.privateKey] });
    const { contents } = await make([from('sharing'), from('model')], {
      version: '4.13.8',
      sequence: 2,
      base: base.path,
    });
    expect(contents.layers.map(({ inBase }) => inBase)).toEqual([undefined, undefined, undefined]);
  });

  it.each([
    ['an index', () => [from('indexed')], 'is an index, and an artifact has one manifest'],
    ['a container image', () => [from('web')], 'is a container image, and no artifact: give it with --image'],
    [
      'with the tag of another one',
      () => [from('model'), from('empty', 'models.example.com/model:1')],
      'requested twice with different digests',
    ],
    [
      'with the tag of an image',
      () => [from('model', 'quay.example.com/web:1')],
      'requested twice with different digests',
    ],
  ])('can not be %s', async (_what, artifacts, message) => {
    await expect(make(artifacts())).rejects.toThrow(message);
  });

  it('are an error for --image, with the flag that takes them', async () => {
    const images = [from('model')];
    await expect(make([], { images })).rejects.toThrow('give it with --artifact');
  });

  it('need an image', async () => {
    await expect(make([from('model')], { images: [] })).rejects.toThrow(/no image is given/);
  });

  it('are refused with a damaged blob, by name', async () => {
    writeFileSync(join(layout, 'blobs/sha256', model.layers[0]?.digest.slice(7) ?? ''), Buffer.alloc(9_000, 'x'));
    await expect(make([from('model')])).rejects.toThrow(
      `layer ${model.layers[0]?.digest} of models.example.com/model:1 in oci:${layout} is damaged`,
    );
  });

  it('travel with an envelope, which brings no layers of images', async () => {
    const key = sampleKey();
    const { path } = await make([from('model')], { keys: [key.privateKey] });
    await takeEnvelope(openBundle(path), join(root, 'stick', 'stickpin', 'envelope'), signal);
    const trust = await trustIn([key], root);
    const [found] = await readBundles(join(root, 'stick'), { trust, layout: 'medium' }, signal);
    expect(found).toMatchObject({ kind: 'verified', isEnvelope: true });
    expect(found?.kind === 'verified' && found.missing.map(({ digest }) => digest)).toEqual([layer.digest]);
  });

  it('are no layers that nodes pull from registries, for who makes an envelope', async () => {
    const { path } = await make([from('model')]);
    const { stdout } = await runCommand(['bundle', 'envelope', path, '--out', join(root, 'envelope')]);
    const left = formatBytes(layer.sizeBytes);
    expect(stdout).toContain(`without 1 layer of ${left}, which nodes pull from quay.example.com`);
  });

  it('are shown by inspect', async () => {
    const { path } = await make([from('model')]);
    const { stdout } = await runCommand(['bundle', 'inspect', path]);
    expect(stdout).toContain('artifact    models.example.com/model:1 (application/vnd.example.model, 9 KiB)');
  });
});
